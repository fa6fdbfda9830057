"""`query()`: permissions, prompts, limits, errors, size."""

import asyncio
import json

from claude_agent_sdk import (
    AgentDefinition,
    PermissionResultAllow,
    PermissionResultDeny,
    PermissionUpdate,
    ResultError,
    query,
)
from harness import AssistantMessage, Case, StreamEvent, bash, calls, text, text_of

TOUCH = [calls(bash("touch made")), text("done")]
PRESET = {"type": "preset", "preset": "claude_code"}


class PlainRuns(Case):
    async def test_a_run_is_init_answer_result_and_silent(self):
        seen = (await self.run_query([text("Good morning.")], "hello")).good()
        kinds = [type(message).__name__ for message in seen.messages]
        self.assertEqual(kinds, ["SystemMessage", "AssistantMessage", "ResultMessage"])
        self.assertEqual(seen.result.result, "Good morning.")
        self.assertEqual(seen.result.usage["input_tokens"], 100)
        self.assertGreater(seen.result.total_cost_usd, 0)
        self.assertEqual(seen.init["cwd"], str(self.cwd))
        self.assertEqual(self.stderr, [])

    async def test_a_tool_may_run_after_stdin_was_closed(self):
        # Without callbacks the SDK closes stdin as soon as the prompt is written.
        seen = (await self.run_query([calls(bash("echo pear")), {"text": "{{last_tool_result}}"}])).good()
        self.assertIn("pear", seen.result.result)

    async def test_partial_messages(self):
        script = {"turns": [text("Hello there.")], "defaults": {"text_chunk": 4}}
        seen = (await self.run_query(script, include_partial_messages=True)).good()
        events = [message.event for message in seen.of(StreamEvent)]
        said = "".join(event.get("delta", {}).get("text", "") for event in events)
        self.assertEqual(said, "Hello there.")
        self.assertEqual(events[0]["type"], "message_start")
        self.assertEqual(events[-1]["type"], "message_stop")

    async def test_prompts_of_a_stream_are_all_answered(self):
        async def prompts():
            for word in ("one", "two"):
                yield {"type": "user", "message": {"role": "user", "content": word}, "parent_tool_use_id": None}

        await self.model({"turns": [text("a"), text("b")], "at_end": {"text": "more"}})
        seen = await self.read(query(prompt=prompts(), options=self.options()))
        self.assertIsNone(seen.error, str(seen))
        self.assertGreaterEqual(len(seen.results), 1)
        last = json.dumps(self.requests()[-1]["body"]["messages"])
        self.assertTrue("one" in last and "two" in last, last)

    async def test_origin_comes_back_on_the_replay(self):
        async def prompts():
            yield {
                "type": "user",
                "message": {"role": "user", "content": "hello"},
                "parent_tool_use_id": None,
                "origin": {"kind": "channel", "server": "pigeon"},
            }

        await self.model([text("hi")])
        options = self.options(extra_args={"replay-user-messages": None})
        seen = (await self.read(query(prompt=prompts(), options=options))).good()
        origins = [m.origin for m in seen.messages if getattr(m, "origin", None)]
        self.assertTrue(origins, str(seen))
        self.assertEqual(dict(origins[0]), {"kind": "channel", "server": "pigeon"})

    async def test_the_result_keeps_the_origin_of_its_prompt(self):
        async def prompts():
            yield {
                "type": "user",
                "message": {"role": "user", "content": "hello"},
                "parent_tool_use_id": None,
                "origin": {"kind": "human"},
            }

        await self.model([text("hi")])
        seen = (await self.read(query(prompt=prompts(), options=self.options()))).good()
        self.assertEqual(dict(seen.result.origin or {}), {"kind": "human"})

    async def test_any_text_goes_through(self):
        odd = 'Grüße 你好 🦢 👩‍👩‍👧 e\u0301 \u2028\u2029 \x00\x1b[31m "quoted" \\n שלום'
        seen = (await self.run_query([{"text": "{{last_user_text}}"}], odd)).good()
        self.assertEqual(seen.result.result, odd)

    async def test_five_megabytes_of_output_fit_the_buffer(self):
        flood = bash("head -c 5000000 /dev/zero | tr '\\0' x; echo END")
        seen = (await self.run_query([calls(flood), text("done")], allowed_tools=["Bash"])).good()
        self.assertEqual(seen.result.result, "done")
        self.assertFalse(seen.tool_results[0].is_error)
        self.assertIn("x" * 1000, text_of(seen.tool_results[0]))

    async def test_output_of_many_bytes_in_json_fits_the_buffer(self):
        # Each of these characters takes six bytes in JSON.
        flood = bash("head -c 5000000 /dev/zero")
        seen = (await self.run_query([calls(flood), text("done")], allowed_tools=["Bash"])).good()
        self.assertFalse(seen.tool_results[0].is_error)

    async def test_twelve_runs_side_by_side(self):
        await self.model({"scope": "conversation", "turns": [text("for {{first_user_text}}")]})
        runs = [self.read(query(prompt=f"run {i}", options=self.options())) for i in range(12)]
        for i, seen in enumerate(await asyncio.gather(*runs)):
            self.assertEqual(seen.good().result.result, f"for run {i}")


class Permissions(Case):
    async def test_allow(self):
        asked = []

        async def can_use_tool(name, tool_input, context):
            asked.append((name, tool_input["command"], context.tool_use_id, len(context.suggestions) > 0))
            return PermissionResultAllow()

        (await self.run_query(TOUCH, can_use_tool=can_use_tool)).good()
        self.assertEqual(asked, [("Bash", "touch made", "toolu_001_0", True)])
        self.assertTrue(self.has("made"))

    async def test_changed_input(self):
        async def can_use_tool(_name, _input, _context):
            return PermissionResultAllow(updated_input={"command": "touch other"})

        (await self.run_query(TOUCH, can_use_tool=can_use_tool)).good()
        self.assertTrue(self.has("other") and not self.has("made"))

    async def test_deny(self):
        async def can_use_tool(_name, _input, _context):
            return PermissionResultDeny(message="not on a Sunday")

        seen = (await self.run_query(TOUCH, can_use_tool=can_use_tool)).good()
        self.assertFalse(self.has("made"))
        self.assertEqual(text_of(seen.tool_results[0]), "not on a Sunday")
        self.assertTrue(seen.tool_results[0].is_error)
        self.assertEqual(seen.result.permission_denials[0]["tool_use_id"], "toolu_001_0")

    async def test_deny_with_interrupt(self):
        async def can_use_tool(_name, _input, _context):
            return PermissionResultDeny(message="stop", interrupt=True)

        seen = await self.run_query(TOUCH, can_use_tool=can_use_tool)
        self.assertFalse(self.has("made"))
        self.assertEqual(seen.result.subtype, "error_during_execution")
        self.assertIn("[Request interrupted by user for tool use]", seen.user_texts)
        self.assertIsInstance(seen.error, ResultError)
        self.assertEqual(seen.error.terminal_reason, "aborted_tools")

    async def test_a_callback_that_raises(self):
        async def can_use_tool(_name, _input, _context):
            raise RuntimeError("the callback broke")

        seen = (await self.run_query(TOUCH, can_use_tool=can_use_tool)).good()
        self.assertFalse(self.has("made"))
        self.assertIn("the callback broke", text_of(seen.tool_results[0]))

    async def test_several_are_asked_in_order(self):
        asked = []

        async def can_use_tool(_name, tool_input, _context):
            asked.append((tool_input["command"], [name for name in "abc" if self.has(name)]))
            await asyncio.sleep(0)
            return PermissionResultAllow()

        script = [calls(bash("touch a"), bash("touch b"), bash("touch c")), text("done")]
        (await self.run_query(script, can_use_tool=can_use_tool)).good()
        self.assertEqual(asked, [("touch a", []), ("touch b", ["a"]), ("touch c", ["a", "b"])])

    async def test_an_update_of_the_mode(self):
        asked = []

        async def can_use_tool(name, _input, _context):
            asked.append(name)
            update = PermissionUpdate(type="setMode", mode="acceptEdits", destination="session")
            return PermissionResultAllow(updated_permissions=[update])

        def write(name):
            return calls({"name": "Write", "input": {"file_path": str(self.cwd / name), "content": "x"}})

        (await self.run_query([write("a"), write("b"), text("done")], can_use_tool=can_use_tool)).good()
        self.assertEqual(asked, ["Write"])
        self.assertTrue(self.has("a") and self.has("b"))

    async def test_rules_of_the_options(self):
        options = {"allowed_tools": ["Bash(touch *)"], "disallowed_tools": ["Bash(mkdir *)"]}
        script = [calls(bash("touch made")), calls(bash("mkdir other")), text("done")]
        seen = (await self.run_query(script, **options)).good()
        self.assertTrue(self.has("made") and not self.has("other"))
        self.assertEqual(len(seen.result.permission_denials), 1)

    async def test_tools_and_disallowed_tools(self):
        seen = (await self.run_query([text("done")], tools=["Bash", "Read"], disallowed_tools=["Bash"])).good()
        self.assertEqual(seen.init["tools"], ["Read"])

    async def test_no_tools(self):
        seen = (await self.run_query([text("done")], tools=[])).good()
        self.assertEqual(seen.init["tools"], [])
        self.assertFalse(self.requests()[0]["body"].get("tools"))

    async def test_modes(self):
        write = calls({"name": "Write", "input": {"file_path": str(self.cwd / "made"), "content": "x"}})
        for mode, runs in (("default", False), ("plan", False), ("dontAsk", False), ("acceptEdits", True)):
            with self.subTest(mode):
                seen = (await self.run_query([write, text("done")], permission_mode=mode)).good()
                self.assertEqual(self.has("made"), runs)
                self.assertEqual(seen.init["permissionMode"], mode)


class Prompts(Case):
    async def sent(self, **options):
        (await self.run_query([text("done")], **options)).good()
        return self.system_of(self.requests()[0])

    async def test_none_leaves_the_own_prompt_out(self):
        self.assertLess(len(await self.sent()), 800)

    async def test_a_text_takes_its_place(self):
        system = await self.sent(system_prompt="You are a heron.")
        self.assertTrue(system.startswith("You are a heron."), system)
        self.assertLess(len(system), 800)

    async def test_the_preset_is_the_own_prompt(self):
        system = await self.sent(system_prompt=PRESET)
        self.assertGreater(len(system), 800)
        self.assertIn(str(self.cwd), system)

    async def test_append_goes_behind_it(self):
        system = await self.sent(system_prompt={**PRESET, "append": "Mind the heron."})
        self.assertGreater(system.find("Mind the heron."), 800)

    async def test_a_file_takes_its_place(self):
        file = self.root / "prompt.txt"
        file.write_text("You are a stork.")
        system = await self.sent(system_prompt={"type": "file", "path": str(file)})
        self.assertTrue(system.startswith("You are a stork."), system)

    async def test_260_kb_of_agents(self):
        agents = {
            f"agent-{i}": AgentDefinition(description="reads", prompt="p" * 10_240, tools=["Read"]) for i in range(26)
        }
        seen = (await self.run_query([text("done")], agents=agents)).good()
        self.assertEqual(seen.result.result, "done")
        self.assertEqual(self.stderr, [])

    async def test_setting_sources(self):
        (self.config / "settings.json").write_text(json.dumps({"permissions": {"allow": ["Bash(touch *)"]}}))
        for sources, runs in (([], False), (["project"], False), (["user"], True)):
            with self.subTest(sources):
                (await self.run_query(TOUCH, setting_sources=sources)).good()
                self.assertEqual(self.has("made"), runs)

    async def test_settings_as_json(self):
        settings = json.dumps({"permissions": {"deny": ["Bash(touch *)"]}})
        (await self.run_query(TOUCH, settings=settings, allowed_tools=["Bash"])).good()
        self.assertFalse(self.has("made"))

    async def test_model_and_thinking(self):
        options = {"model": "claude-sonnet-4-5", "max_thinking_tokens": 2048}
        (await self.run_query([text("done")], **options)).good()
        body = self.requests()[0]["body"]
        self.assertEqual(body["model"], "claude-sonnet-4-5")
        self.assertEqual(body["thinking"], {"type": "enabled", "budget_tokens": 2048})


class Endings(Case):
    async def test_max_turns(self):
        seen = await self.run_query({"turns": [calls(bash("echo round"))]}, max_turns=2)
        self.assertEqual(seen.result.subtype, "error_max_turns")
        self.assertTrue(seen.result.is_error)
        self.assertIsInstance(seen.error, ResultError)
        self.assertEqual(seen.error.errors, ["Reached maximum number of turns (2)"])
        self.assertEqual(seen.error.terminal_reason, "max_turns")
        self.assertEqual(seen.error.exit_code, 1)

    async def test_max_budget(self):
        turn = {"text": "dear", "usage": {"input_tokens": 900_000}}
        seen = await self.run_query([turn], max_budget_usd=0.001)
        self.assertIsInstance(seen.error, ResultError)
        self.assertEqual(seen.error.subtype, "error_max_budget_usd")
        self.assertEqual(seen.error.errors, ["Reached maximum budget ($0.001)"])

    async def test_an_api_error_is_a_result_error(self):
        seen = await self.run_query([{"error": {"status": 400, "message": "no such thing"}}])
        self.assertIsInstance(seen.error, ResultError)
        self.assertEqual(seen.error.subtype, "success")
        self.assertEqual(seen.error.api_error_status, 400)
        self.assertEqual(seen.error.terminal_reason, "api_error")
        self.assertIn("no such thing", seen.error.result)
        self.assertEqual(seen.error.session_id, seen.init["session_id"])
        self.assertTrue(str(seen.error).startswith("Claude Code returned an error result: API Error: 400"))

    async def test_401_is_an_authentication_error(self):
        seen = await self.run_query([{"error": 401}], env={"CLAUDE_CODE_MAX_RETRIES": "0"})
        self.assertEqual(seen.of(AssistantMessage)[-1].error, "authentication_failed")
        self.assertIsInstance(seen.error, ResultError)

    async def test_retries_are_shown(self):
        busy = {"error": {"status": 429, "headers": {"retry-after": "1"}}}
        seen = (await self.run_query([busy, text("at last")])).good()
        self.assertEqual(seen.system("api_retry")[0]["error"], "rate_limit")

    async def test_fallback_model(self):
        options = {"model": "claude-opus-4-5", "fallback_model": "claude-sonnet-4-5"}
        seen = (await self.run_query([{"error": 500}, text("from the other")], **options)).good()
        self.assertEqual(seen.system("model_fallback")[0]["fallback_model"], "claude-sonnet-4-5")
        self.assertEqual([r["body"]["model"] for r in self.requests()], ["claude-opus-4-5", "claude-sonnet-4-5"])

    async def test_a_flag_error_reaches_the_stderr_callback(self):
        seen = await self.run_query([text("never")], extra_args={"no-such-flag": None})
        self.assertIsInstance(seen.error, Exception)
        self.assertNotIsInstance(seen.error, ResultError)
        await self.until("the complaint", lambda: "unknown option '--no-such-flag'" in "".join(self.stderr))

    async def test_a_bad_session_id_is_a_process_error(self):
        seen = await self.run_query([text("never")], session_id="not-a-uuid")
        self.assertIsNotNone(seen.error)
        await self.until("the complaint", lambda: "Invalid session ID" in "".join(self.stderr))

    async def test_structured_output(self):
        schema = {"type": "object", "properties": {"age": {"type": "number"}}, "required": ["age"]}
        answer = calls({"name": "StructuredOutput", "input": {"age": 3}})
        seen = (await self.run_query([answer], output_format={"type": "json_schema", "schema": schema})).good()
        self.assertEqual(seen.result.structured_output, {"age": 3})

    async def test_resume(self):
        first = (await self.run_query([text("one")])).good()
        second = (await self.run_query([text("two")], resume=first.result.session_id)).good()
        self.assertEqual(second.result.session_id, first.result.session_id)
