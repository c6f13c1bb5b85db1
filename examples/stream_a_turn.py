"""Stream one turn with recovery, from any provider that has a policy.

    python examples/stream_a_turn.py anthropic claude-sonnet-5 "Why is the sky blue?"
    python examples/stream_a_turn.py llamacpp local "Hi" --base-url http://127.0.0.1:8080

Text goes to stdout as it comes; what the machine does goes to stderr.
"""

import argparse
import sys

import midthought


def main() -> int:
    """Run one prompt; exit 1 if the turn did not complete."""
    parser = argparse.ArgumentParser()
    parser.add_argument("policy")
    parser.add_argument("model")
    parser.add_argument("prompt")
    parser.add_argument("--base-url")
    args = parser.parse_args()
    request = {
        "model": args.model,
        "max_tokens": 512,
        "messages": [{"role": "user", "content": args.prompt}],
    }
    with midthought.Client(args.policy, base_url=args.base_url) as client:
        call = client.prepare(request)
        for event in client.stream(call):
            if isinstance(event, midthought.BlockDelta) and event.field == "text":
                print(event.text, end="", flush=True)
            elif isinstance(event, midthought.StateChanged):
                print(f"[{event.source} -> {event.state}]", file=sys.stderr)
    print()
    turn = call.turn
    print(f"{turn.outcome}: {len(turn.attempts)} requests, {turn.usage}", file=sys.stderr)
    return 0 if turn.outcome == "completed" else 1


if __name__ == "__main__":
    sys.exit(main())
