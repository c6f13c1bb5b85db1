"""Wire dialect ``openai_chat``: OpenAI Chat Completions and the many servers that speak like it.

Rule: quirks are read tolerantly or are policy data; no server is known by name. Requests are built
in ``_openai_chat_request``, blocks in ``_openai_chat_blocks``. Imports no IO.

    frame                                             meaning
    first chunk with a choice or an id                Opened
    choices[].delta.content, text or parts            text block (parts: text, thinking, media)
    delta.reasoning_content, reasoning, .._details    thinking block, the text once
    delta.refusal                                     refusal block
    delta.tool_calls[], function_call                 tool block; which one: _openai_chat_tools
    delta.audio, images                               media block
    choices[].finish_reason, but null, "", "null", 0  the stop fact, with or without [DONE]
    ... one of [stream] failures                      the stop fact as Stop.error
    usage, x_groq.usage                               usage, with choices or without
    data: [DONE]                                      end marker; success only if done_is_terminal
    error at the top, in a choice, in x_groq;         error, whatever comes after
    event: error; a field error:
    choices empty or null; delta null or empty        sign of life
    another object                                    Unknown

A stop reason that neither the policy nor this dialect knows is an end, with the raw word kept. An
end with tool calls is ``tool_use`` (servers say ``stop`` there). The reason may come twice; the
last that means something else wins.

With ``n > 1`` each choice has its own blocks, numbered from ``choice * 65536``, and those of
choices above 0 carry ``{"choice": c}`` as data. The stop fact comes when every choice seen has one;
it is that of choice 0 and lists all in its details. Servers that send one choice after the other
look finished in between: give ``decoder`` the request's n. ``Usage.input`` includes cached tokens.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from midthought.policies import Policy, Stop
from midthought.statemachine import (
    BlockDelta,
    Event,
    Heartbeat,
    Opened,
    StopKnown,
    Unknown,
    Usage,
    UsageReported,
)

from ._dialect import Dialect, ErrorFacts, ErrorSeen, Malformed, Signal, Terminal
from ._http_errors import error_facts
from ._openai_chat_blocks import CHOICE_STRIDE, ChoiceBlocks
from ._openai_chat_facts import (
    CUTTING,
    NO_USAGE,
    STOPS,
    chunk_error,
    stated,
    usage_of,
    whole,
    why,
    word,
)
from ._openai_chat_frames import (
    DONE,
    Choice,
    Chunk,
    chunk_from,
    delta_from,
    documents,
    plain_text,
    read_chunk,
    read_text,
)
from ._openai_chat_request import ChatRequests
from ._openai_chat_text import Unreadable
from ._sse import Frame

__all__ = ["CHOICE_STRIDE", "STOPS", "ChatDecoder", "OpenAIChat", "dialect"]


class ChatDecoder:
    """Reads the frames of one attempt; see the table above."""

    __slots__ = (
        "_attempt", "_choices", "_expected", "_hot", "_hot_thinking", "_only_text", "_opened",
        "_policy", "_stop", "_stops", "_usage",
    )  # fmt: skip

    def __init__(self, policy: Policy, attempt: int, choices: int = 1) -> None:
        stream = policy.stream
        self._attempt = attempt
        self._policy = policy
        self._expected = choices
        failures = {name.lower(): Stop.error for name in stream.failures}
        stops = {name.lower(): stop for name, stop in stream.stops.items()}
        self._stops = STOPS | stops | failures
        self._choices: dict[int, ChoiceBlocks] = {}
        self._opened = False
        self._stop: Stop | None = None
        self._usage: Usage | None = None
        # Index of the text or thinking block that more of it goes straight into, else -1.
        self._hot = -1
        self._hot_thinking = False
        # More of the hot block comes as text and nothing else; tried again for each block.
        self._only_text = False

    def decode(self, frame: Frame, out: list[Event]) -> Signal:
        """Append the frame's events to ``out``; see ``Decoder``."""
        data = frame.data
        if data is None or frame.event == "error" or frame.fields is not None:
            return self._odd(frame, out)
        if self._hot >= 0 and self._only_text:
            try:
                said = read_text(data).choices[0].delta.content
            except (msgspec.DecodeError, RecursionError):
                pass
            else:
                out.append(BlockDelta(self._attempt, self._hot, said))
                return None
        try:
            chunk = read_chunk(data)
        except (msgspec.DecodeError, RecursionError):
            return self._odd(frame, out)
        if self._hot >= 0 and (text := plain_text(chunk, self._hot_thinking)):
            self._only_text = False  # this server's text comes with empty fields beside it
            out.append(BlockDelta(self._attempt, self._hot, text))
            return None
        return self._tell(chunk, frame, None, out)

    def ended(self, out: list[Event]) -> None:
        """Close what came after a stop, and what no stop closed."""
        for blocks in self._choices.values():
            blocks.stop(cut=self._meaning(blocks.reason) in CUTTING, out=out)
        self._hot = -1

    # --- frames that are not as usual ---

    def _odd(self, frame: Frame, out: list[Event]) -> Signal:
        """Named events, unknown fields, the end marker, and JSON that the fast decoder refused."""
        if frame.fields is not None and (words := frame.fields.get(b"error")) is not None:
            return ErrorSeen(stated(words))
        data = frame.data or b""
        if frame.event == "error":
            return ErrorSeen(stated(data))
        if not data.strip():
            return None
        try:
            found = documents(data)
        except RecursionError:
            return Malformed(f"{len(data)} bytes of JSON nested too deep")
        except ValueError as error:
            return Malformed(why(data, error))
        for document in found:
            if document is DONE:
                return self._done(out)
            signal = self._document(document, frame, out)
            if signal is not None:
                return signal
        return None

    def _document(self, document: Any, frame: Frame, out: list[Event]) -> Signal:
        if isinstance(document, list):
            facts = error_facts(document)
            if facts is None:
                return Malformed(f"a list of {len(document)}, expected an object")
            return ErrorSeen(facts)
        return self._tell(chunk_from(document), frame, document, out)

    def _done(self, out: list[Event]) -> Signal:
        """The end marker: the stop fact too, where the policy says that it is one."""
        if self._stop is None and self._policy.stream.done_is_terminal:
            called = [blocks.stop(cut=False, out=out) for blocks in self._choices.values()]
            self._stop = Stop.tool_use if any(called) else Stop.end
            out.append(StopKnown(self._attempt, self._stop, "[DONE]"))
        return Terminal()

    # --- a chunk ---

    def _tell(
        self, chunk: Chunk, frame: Frame, document: dict[str, Any] | None, out: list[Event]
    ) -> Signal:
        """Every chunk that is not only text in an open block."""
        if (facts := chunk_error(chunk, frame, document)) is not None:
            return ErrorSeen(facts)
        before = len(out)
        choices = chunk.choices
        if not self._opened and (choices or chunk.id):
            self._open(chunk, out)
        try:
            for choice in choices or ():
                self._choice(choice, out)
        except Unreadable as error:
            return Malformed(str(error))
        groq = chunk.x_groq
        self._count(chunk.usage or (groq.get("usage") if isinstance(groq, dict) else None), out)
        if choices:
            self._warm()
        if len(out) == before:
            self._nothing(chunk, frame, document, out)
        return None

    def _open(self, chunk: Chunk, out: list[Event]) -> None:
        self._opened = True
        stream_id, model = chunk.id, chunk.model
        out.append(
            Opened(
                self._attempt,
                stream_id if isinstance(stream_id, str) and stream_id else None,
                model if isinstance(model, str) and model else None,
            )
        )

    def _choice(self, choice: Choice, out: list[Event]) -> None:
        number = choice.index if isinstance(choice.index, int) and choice.index > 0 else 0
        blocks = self._choices.get(number)
        delta = choice.delta
        if blocks is None:
            blocks = self._choices[number] = ChoiceBlocks(self._attempt, number, self._policy)
            if delta is None:
                delta = delta_from(choice.message)
        if delta is not None:
            blocks.add(delta, out)
        if reason := word(choice.finish_reason):
            blocks.reason = reason
            if (stop := self._meaning(reason)) is not Stop.error:
                blocks.stop(cut=stop in CUTTING, out=out)
        if reason or blocks.reason:
            self._tell_stop(out)

    def _meaning(self, reason: str) -> Stop:
        return self._stops.get(reason.lower(), Stop.end)

    def _tell_stop(self, out: list[Event]) -> None:
        """The stop fact, once every choice has stopped, and again if it turns out otherwise."""
        choices = self._choices
        reasons = [blocks.reason for blocks in choices.values()]
        failed = next((r for r in reasons if r and self._meaning(r) is Stop.error), None)
        if failed is None and (len(choices) < self._expected or not all(reasons)):
            return
        first = choices.get(0) or next(iter(choices.values()))
        reason = failed or first.reason
        stop = self._meaning(reason)
        if stop is Stop.end and first.calls.all:
            stop = Stop.tool_use
        if stop is self._stop:
            return
        self._stop = stop
        details = None
        if len(choices) > 1:
            details = {"choices": {str(n): blocks.reason for n, blocks in choices.items()}}
        out.append(StopKnown(self._attempt, stop, reason, details))

    def _warm(self) -> None:
        """Where the open block of choice 0 takes text as it comes, that is hot."""
        self._hot = -1
        blocks = self._choices.get(0)
        if blocks is not None and blocks.prose is not None and blocks.takes_text:
            self._hot, self._hot_thinking = blocks.prose, blocks.prose_kind == "thinking"
            self._only_text = not self._hot_thinking

    def _count(self, usage: Any, out: list[Event]) -> None:
        if isinstance(usage, dict) and usage:
            counted = usage_of(usage)
            if counted != self._usage and counted != NO_USAGE:
                self._usage = counted
                out.append(UsageReported(self._attempt, counted))

    def _nothing(
        self, chunk: Chunk, frame: Frame, document: dict[str, Any] | None, out: list[Event]
    ) -> None:
        """A chunk without effect is a sign of life; an object that is no chunk is passed on."""
        if chunk.choices is None and chunk.usage is None:
            told = whole(frame) if document is None else document
            if isinstance(told, dict) and "choices" not in told:
                name = frame.event or told.get("object") or told.get("type")
                out.append(Unknown(self._attempt, name if isinstance(name, str) else "", frame.raw))
                return
        out.append(Heartbeat(self._attempt))


class OpenAIChat(ChatRequests, Dialect):
    """The dialect object: a decoder per attempt, and the request side."""

    name = "openai_chat"
    content_types: tuple[str, ...] = ("text/event-stream",)

    def decoder(self, policy: Policy, attempt: int, choices: int = 1) -> ChatDecoder:
        """A new decoder; ``choices`` is the request's n where it is known."""
        return ChatDecoder(policy, attempt, choices)

    def error_facts(self, body: Any, status: int | None) -> ErrorFacts | None:
        """The error that a decoded JSON body states, or ``None``."""
        return error_facts(body, status)

    def unary(self, body: Any, policy: Policy, attempt: int) -> list[Event] | None:
        """Events of a ``chat.completion``: each message is one delta, with its calls numbered."""
        if not isinstance(body, dict):
            return None
        chunk = chunk_from(body)
        if not chunk.choices or not any(isinstance(c.message, dict) for c in chunk.choices):
            return None
        for choice in chunk.choices:
            choice.delta = delta_from(choice.message)
        out: list[Event] = []
        decoder = self.decoder(policy, attempt, len(chunk.choices))
        frame = Frame(b"", data=b"{}")
        if decoder._tell(chunk, frame, body, out) is not None:
            return None
        decoder.ended(out)
        return out


dialect: Final = OpenAIChat()
