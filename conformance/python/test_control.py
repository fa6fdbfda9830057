"""The control channel: questions to a person, consent that ends plan mode, ends as typed errors."""

from claude_agent_sdk import PermissionResultAllow, ResultError
from harness import Case, bash, calls, text

QUESTION = {
    "question": "Which?",
    "header": "Pick",
    "multiSelect": False,
    "options": [{"label": "A", "description": "a"}, {"label": "B", "description": "b"}],
}


class QuestionsToAPerson(Case):
    async def test_a_question_is_answered_through_the_callback(self):
        async def can_use_tool(name, tool_input, _context):
            self.assertEqual(name, "AskUserQuestion")
            return PermissionResultAllow(updated_input={**tool_input, "answers": {"Which?": "B"}})

        script = [calls({"name": "AskUserQuestion", "input": {"questions": [QUESTION]}}), text("done")]
        seen = (await self.run_query(script, can_use_tool=can_use_tool)).good()
        self.assertEqual(seen.result.permission_denials or [], [])

    async def test_plan_mode_is_left_with_consent(self):
        asked = []

        async def can_use_tool(name, _input, _context):
            asked.append(name)
            return PermissionResultAllow()

        script = [calls({"name": "ExitPlanMode", "input": {}}), calls(bash("touch made")), text("done")]
        (await self.run_query(script, can_use_tool=can_use_tool, permission_mode="plan")).good()
        self.assertEqual(asked, ["ExitPlanMode", "Bash"])
        self.assertTrue(self.has("made"))


class Ends(Case):
    async def test_a_limit_is_a_typed_error(self):
        seen = await self.run_query([calls(bash("echo round")), text("never")], max_turns=1)
        self.assertTrue(seen.result.is_error)
        self.assertIsInstance(seen.error, ResultError)
