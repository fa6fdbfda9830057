"""File checkpoints: `enable_file_checkpointing`, and `rewind_files` with the ids of replayed prompts."""

import unittest

from claude_agent_sdk import UserMessage

from harness import Case, calls, text


def write(path, content):
    return {"name": "Write", "input": {"file_path": str(path), "content": content}}


class RewindFiles(Case):
    OPTIONS = {
        "enable_file_checkpointing": True,
        "extra_args": {"replay-user-messages": None},
        "permission_mode": "acceptEdits",
    }

    async def test_goes_back_to_before_a_prompt_also_in_a_later_run(self):
        file = self.cwd / "f.txt"
        script = [calls(write(file, "1")), text("one"), calls(write(file, "2")), text("two")]
        client = await self.client(script, **self.OPTIONS)
        ids = []

        async def each(message):
            if isinstance(message, UserMessage) and message.uuid and isinstance(message.content, str):
                ids.append(message.uuid)

        first = await self.turn(client, "a", each)
        first.good()
        (await self.turn(client, "b", each)).good()
        self.assertEqual(len(ids), 2)
        self.assertEqual(file.read_text(), "2")
        await client.rewind_files(ids[1])
        self.assertEqual(file.read_text(), "1")
        await client.disconnect()

        later = await self.client({"turns": [text("idle")]}, resume=first.result.session_id, **self.OPTIONS)
        await later.query("")
        async for _message in later.receive_response():
            await later.rewind_files(ids[0])
            break
        self.assertFalse(file.exists())

    async def test_unknown_prompts_are_refused(self):
        client = await self.client([text("one")], **self.OPTIONS)
        (await self.turn(client, "a")).good()
        with self.assertRaisesRegex(Exception, "No file checkpoint found for this message"):
            await client.rewind_files("00000000-0000-4000-8000-000000000000")


if __name__ == "__main__":
    unittest.main()
