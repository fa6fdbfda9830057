"""Sessions over several runs, the SDK's functions on the files that Lathe writes, and sessions in a store."""

import json
import os
import uuid
from unittest import mock

from claude_agent_sdk import (
    InMemorySessionStore,
    delete_session,
    fork_session,
    get_session_info,
    get_session_messages,
    get_session_messages_from_store,
    list_sessions,
    list_sessions_from_store,
    list_subagents,
    project_key_for_directory,
    query,
    rename_session,
    tag_session,
)
from harness import AssistantMessage, Case, bash, calls, text

ANSWERS = [text(f"answer {nth}") for nth in range(1, 12)]


class Sessions(Case):
    def setUp(self):
        super().setUp()
        # The SDK's functions find their folder through the environment of this process.
        patch = mock.patch.dict(os.environ, {"CLAUDE_CONFIG_DIR": str(self.config)})
        patch.start()
        self.addCleanup(patch.stop)

    async def turn(self, prompt, **options):
        """One more run; the model goes on where it was."""
        if self.url is None:
            await self.model(ANSWERS)
        return await self.read(query(prompt=prompt, options=self.options(**options)))

    def sent(self):
        return json.dumps(self.requests()[-1]["body"]["messages"])

    def file(self, session_id):
        (path,) = self.config.glob(f"projects/*/{session_id}.jsonl")
        return [json.loads(line) for line in path.read_text().splitlines()]

    def refused(self, seen, beginning):
        errors = [error for result in seen.results for error in result.errors or []]
        self.assertTrue(any(beginning in said for said in [*errors, str(seen.error)]), f"{beginning}: {seen}")


class GoingOn(Sessions):
    async def test_resume_keeps_the_id_and_the_words(self):
        first = (await self.turn("first")).good()
        second = (await self.turn("second", resume=first.result.session_id)).good()
        self.assertEqual(second.result.session_id, first.result.session_id)
        self.assertEqual(len(second.of(AssistantMessage)), 1)
        self.assertIn("answer 1", self.sent())
        self.assertGreater(second.result.total_cost_usd, first.result.total_cost_usd)

    async def test_continue(self):
        first = (await self.turn("first", continue_conversation=True)).good()
        second = (await self.turn("second", continue_conversation=True)).good()
        self.assertEqual(second.result.session_id, first.result.session_id)
        self.assertIn("answer 1", self.sent())

    async def test_fork(self):
        first = (await self.turn("first")).good().result.session_id
        before = self.file(first)
        fork = (await self.turn("second", resume=first, fork_session=True)).good()
        self.assertNotEqual(fork.result.session_id, first)
        self.assertIn("answer 1", self.sent())
        self.assertEqual(self.file(first), before)

    async def test_a_chosen_id(self):
        chosen = str(uuid.uuid4())
        self.assertEqual((await self.turn("first", session_id=chosen)).good().result.session_id, chosen)

    async def test_a_cut_with_the_right_and_with_a_wrong_turn(self):
        first = (await self.turn("first")).good()
        session = first.result.session_id
        await self.turn("second", resume=session)
        answer = first.of(AssistantMessage)[0].uuid
        prompt = [record["uuid"] for record in self.file(session) if record["type"] == "user"][1]
        wrong = await self.turn(
            "x", resume=session, resume_session_at=answer, resume_drops_turn=str(uuid.uuid4())
        )
        self.refused(wrong, "Resume rejected by --resume-drops-turn:")
        self.assertEqual(len(self.requests()), 2)
        cut = await self.turn("instead", resume=session, resume_session_at=answer, resume_drops_turn=prompt)
        self.assertEqual(cut.good().result.session_id, session)
        self.assertNotIn("second", self.sent())
        nowhere = str(uuid.uuid4())
        bad = await self.turn("x", resume=session, resume_session_at=nowhere)
        self.refused(bad, f"No message found with message.uuid of: {nowhere}")

    async def test_a_session_that_is_not_there(self):
        nobody = str(uuid.uuid4())
        self.refused(await self.turn("x", resume=nobody), f"No conversation found with session ID: {nobody}")


class Functions(Sessions):
    async def test_list_info_and_messages(self):
        await self.model([calls(bash("echo one"), bash("echo two")), text("done")])
        session = (await self.turn("do it")).good().result.session_id
        (listed,) = list_sessions(directory=str(self.cwd))
        self.assertEqual((listed.session_id, listed.first_prompt), (session, "do it"))
        info = get_session_info(session, directory=str(self.cwd))
        self.assertEqual((info.cwd, info.summary), (str(self.cwd), "do it"))
        messages = get_session_messages(session, directory=str(self.cwd))
        kinds = ["user", "assistant", "assistant", "user", "user", "assistant"]
        self.assertEqual([message.type for message in messages], kinds)
        self.assertEqual(list_subagents(session, directory=str(self.cwd)), [])

    async def test_rename_tag_and_delete(self):
        session = (await self.turn("first")).good().result.session_id
        where = str(self.cwd)
        rename_session(session, "The parser", directory=where)
        tag_session(session, "work", directory=where)
        info = get_session_info(session, directory=where)
        self.assertEqual((info.custom_title, info.tag), ("The parser", "work"))
        named = (await self.turn("second", resume="The parser")).good()
        self.assertEqual(named.result.session_id, session)
        delete_session(session, directory=where)
        self.assertEqual(list_sessions(directory=where), [])
        self.refused(await self.turn("x", resume=session), "No conversation found")

    async def test_a_fork_made_by_the_sdk_goes_on(self):
        first = (await self.turn("first")).good()
        session = first.result.session_id
        await self.turn("second", resume=session)
        answer = first.of(AssistantMessage)[0].uuid
        fork = fork_session(session, directory=str(self.cwd), up_to_message_id=answer).session_id
        self.assertEqual((await self.turn("third", resume=fork)).good().result.session_id, fork)
        self.assertIn("answer 1", self.sent())
        self.assertNotIn("second", self.sent())
        self.assertEqual(len(get_session_messages(fork, directory=str(self.cwd))), 4)

    async def test_a_fork_made_by_the_sdk_keeps_what_a_compaction_kept(self):
        full = {**calls(bash("echo kept")), "usage": {"input_tokens": 970_000}}
        gist = text("<summary>THE GIST</summary>")
        await self.model([text("long " + "word " * 5000), full, gist, text("after"), text("forked")])
        session_id = (await self.turn("first")).good().result.session_id
        (await self.turn("second", resume=session_id, allowed_tools=["Bash"])).good()
        fork = fork_session(session_id, directory=str(self.cwd)).session_id
        (await self.turn("third", resume=fork)).good()
        self.assertRegex(self.sent(), "THE GIST.*echo kept.*after.*third")


class Stores(Sessions):
    async def test_the_store_holds_what_the_file_holds(self):
        store = InMemorySessionStore()
        session = (await self.turn("first", session_store=store)).good().result.session_id
        key = {"project_key": project_key_for_directory(str(self.cwd)), "session_id": session}
        self.assertEqual(await store.load(key), self.file(session))
        messages = await get_session_messages_from_store(store, session, directory=str(self.cwd))
        self.assertEqual(len(messages), 2)
        (listed,) = await list_sessions_from_store(store, directory=str(self.cwd))
        self.assertEqual(listed.session_id, session)

    async def test_resume_and_continue_from_a_store_with_nothing_on_the_disk(self):
        for how in ("resume", "continue_conversation"):
            with self.subTest(how):
                store = InMemorySessionStore()
                session = (await self.turn("first", session_store=store)).good().result.session_id
                empty = self.root / f"empty-{how}"
                empty.mkdir()
                go_on = {how: session if how == "resume" else True}
                surroundings = {"env": {"CLAUDE_CONFIG_DIR": str(empty)}, "session_store": store}
                second = (await self.turn("second", **go_on, **surroundings)).good()
                self.assertEqual(second.result.session_id, session)
                self.assertIn("first", self.sent())
                third = (await self.turn("third", **go_on, **surroundings)).good()
                self.assertIn("second", self.sent())
                self.assertGreater(third.result.total_cost_usd, second.result.total_cost_usd)

    async def test_a_store_that_fails_is_reported_and_the_run_goes_on(self):
        class Closed(InMemorySessionStore):
            async def append(self, key, entries):
                raise RuntimeError("the store is closed")

        seen = (await self.turn("first", session_store=Closed())).good()
        self.assertTrue(any("the store is closed" in error["error"] for error in seen.system("mirror_error")))
