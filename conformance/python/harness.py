"""What every case needs: a scripted model, an empty home and working folder, and the official Python SDK against
the program in LATHE_BIN. Cases say what the model answers and look at what came out.

A case that shows a known defect is marked with `todo("why")`: it still runs, and its failure counts as skipped.
"""

import asyncio
import functools
import json
import logging
import os
import shutil
import tempfile
import unittest
from pathlib import Path

from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    PermissionResultAllow,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    ToolResultBlock,
    UserMessage,
    query,
)

BINARY = os.environ.get("LATHE_BIN", "")

# Far more than a case needs: the machine may be busy.
CASE_SECONDS = 60

# Runs that fail on purpose are what the cases are about; the SDK's log of them is noise.
logging.getLogger("claude_agent_sdk").setLevel(logging.CRITICAL)


def todo(reason):
    """Marks a case that is known to fail."""

    def mark(case):
        @functools.wraps(case)
        async def run(self):
            try:
                await case(self)
            except unittest.SkipTest:
                raise
            except Exception as failure:
                raise unittest.SkipTest(f"{reason} ({type(failure).__name__})") from failure

        return run

    return mark


def calls(*tools):
    """A turn that calls tools."""
    return {"tools": list(tools)}


def bash(command):
    return {"name": "Bash", "input": {"command": command}}


def text(said):
    return {"text": said}


async def allow(_name, tool_input, _context):
    return PermissionResultAllow(updated_input=tool_input)


class Seen:
    """What a run gave."""

    def __init__(self):
        self.messages = []
        self.error = None

    def of(self, kind):
        return [message for message in self.messages if isinstance(message, kind)]

    def system(self, subtype):
        return [message.data for message in self.of(SystemMessage) if message.subtype == subtype]

    @property
    def results(self):
        return self.of(ResultMessage)

    @property
    def result(self):
        assert len(self.results) == 1, f"one result wanted: {self}"
        return self.results[0]

    @property
    def init(self):
        return self.system("init")[0]

    @property
    def tool_results(self):
        blocks = [block for m in self.of(UserMessage) if isinstance(m.content, list) for block in m.content]
        return [block for block in blocks if isinstance(block, ToolResultBlock)]

    @property
    def user_texts(self):
        texts = []
        for message in self.of(UserMessage):
            if isinstance(message.content, str):
                texts.append(message.content)
            else:
                texts.extend(block.text for block in message.content if hasattr(block, "text"))
        return texts

    def good(self):
        """Fails unless the run ended well."""
        assert self.error is None, f"{self.error!r}: {self}"
        assert self.result.subtype == "success" and not self.result.is_error, f"{self}"
        return self

    def __str__(self):
        lines = [repr(message)[:600] for message in self.messages]
        return "\n".join([*lines, f"error: {self.error!r}"])


class Case(unittest.IsolatedAsyncioTestCase):
    """One case and everything it owns."""

    def setUp(self):
        assert os.path.exists(BINARY), "LATHE_BIN must name the built lathe"
        self.root = Path(tempfile.mkdtemp(prefix="lathe-conformance-"))
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)
        self.cwd = self.root / "work"
        self.config = self.root / "home" / ".claude"
        self.log = self.root / "requests.jsonl"
        self.cwd.mkdir()
        self.config.mkdir(parents=True)
        self.stderr = []
        self.url = None

    async def asyncSetUp(self):
        # unittest turns on asyncio's debug mode, which reports every slow step of a busy machine.
        asyncio.get_running_loop().set_debug(False)

    async def model(self, script):
        """Starts the scripted model: a list of turns, or a whole script."""
        if isinstance(script, list):
            script = {"turns": script, "at_end": "error"}
        file = self.root / "script.json"
        file.write_text(json.dumps(script))
        server = await asyncio.create_subprocess_exec(
            BINARY, "model", "serve", str(file), "--port", "0", "--log", str(self.log),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )

        async def stop():
            if server.returncode is None:
                server.kill()
            await server.wait()

        self.addAsyncCleanup(stop)
        self.url = (await asyncio.wait_for(server.stdout.readline(), CASE_SECONDS)).decode().strip()
        self.assertTrue(self.url.startswith("http://"), "the scripted model did not start")

    def requests(self):
        if not self.log.exists():
            return []
        lines = [json.loads(line) for line in self.log.read_text().splitlines() if line]
        return [line for line in lines if line["target"].startswith("/v1/messages")]

    def options(self, env=None, **more):
        surroundings = {
            "HOME": str(self.root / "home"),
            "CLAUDE_CONFIG_DIR": str(self.config),
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": "test",
        }
        given = {
            "cli_path": BINARY,
            "cwd": str(self.cwd),
            "env": {**surroundings, **(env or {})},
            "stderr": self.stderr.append,
        }
        return ClaudeAgentOptions(**{**given, **more})

    async def run_query(self, script, prompt="go", **options):
        """A whole run through `query()`."""
        await self.model(script)
        return await self.read(query(prompt=prompt, options=self.options(**options)))

    async def read(self, messages):
        """Reads to the end, whatever the end is."""
        seen = Seen()

        async def collect():
            async for message in messages:
                seen.messages.append(message)

        try:
            await asyncio.wait_for(collect(), CASE_SECONDS)
        except TimeoutError:
            raise AssertionError(f"no end in sight: {seen}") from None
        except Exception as error:
            seen.error = error
        return seen

    async def client(self, script, **options):
        """A connected client that is disconnected after the case."""
        await self.model(script)
        client = ClaudeSDKClient(options=self.options(**options))
        await client.connect()
        self.addAsyncCleanup(client.disconnect)
        return client

    async def turn(self, client, prompt, each=None):
        """One prompt and everything up to its result."""
        await client.query(prompt)
        seen = Seen()

        async def collect():
            async for message in client.receive_response():
                seen.messages.append(message)
                if each is not None:
                    await each(message)

        await asyncio.wait_for(collect(), CASE_SECONDS)
        return seen

    def has(self, name):
        return (self.cwd / name).exists()

    def system_of(self, request):
        system = request["body"].get("system", "")
        return system if isinstance(system, str) else "\n".join(part["text"] for part in system)

    async def until(self, what, is_true):
        """Waits for something outside of this process: a file made by a tool, the end of a process."""
        for _ in range(2000):
            if is_true():
                return
            await asyncio.sleep(0.01)
        self.fail(f"waited for {what}")


def text_of(block):
    if isinstance(block.content, str):
        return block.content
    return "".join(part.get("text", "") for part in block.content)


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


__all__ = [
    "AssistantMessage", "Case", "Seen", "StreamEvent", "allow", "bash", "calls", "is_alive", "text", "text_of", "todo",
]
