"""Structured output: `output_format` in, `structured_output` of the result out."""

import unittest

from harness import Case, bash, calls, text

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}
FORMAT = {"type": "json_schema", "schema": SCHEMA}
BOB = {"name": "Bob", "age": 3}


def give(answer):
    return calls({"name": "StructuredOutput", "input": answer})


class StructuredOutput(Case):
    async def test_a_fitting_answer_ends_the_turn(self):
        seen = (await self.run_query([calls(bash("echo 3")), give(BOB)], output_format=FORMAT)).good()
        self.assertEqual(seen.result.structured_output, BOB)

    async def test_an_answer_that_does_not_fit_is_mended(self):
        seen = (await self.run_query([give({"name": 7}), give(BOB)], output_format=FORMAT)).good()
        self.assertEqual(seen.result.structured_output, BOB)

    async def test_five_wrong_answers_are_an_error(self):
        seen = await self.run_query({"turns": [give({"name": "x"})]}, output_format=FORMAT)
        self.assertEqual(seen.result.subtype, "error_max_structured_output_retries")
        self.assertTrue(seen.result.is_error)
        self.assertIn("after 5 attempts", " ".join(seen.result.errors))

    async def test_every_prompt_gets_its_own(self):
        client = await self.client([give(BOB), text("Ann"), give({"name": 7}), give({"name": "Ann", "age": 4})],
                                   output_format=FORMAT)
        first = (await self.turn(client, "one")).good()
        second = (await self.turn(client, "two")).good()
        self.assertEqual(first.result.structured_output, BOB)
        self.assertEqual(second.result.structured_output, {"name": "Ann", "age": 4})

    async def test_what_is_no_schema_ends_the_run_before_it_begins(self):
        for schema in ({"type": "nonsense"}, {"type": "array"}):
            seen = await self.run_query([text("never")], output_format={"type": "json_schema", "schema": schema})
            self.assertIsNotNone(seen.error)
            await self.until("the complaint", lambda: "is not a valid JSON Schema" in "".join(self.stderr))
            self.stderr.clear()
        self.assertEqual(self.requests(), [])

    async def test_text_alone_is_text(self):
        seen = (await self.run_query({"turns": [text("Bob, 3")]}, output_format=FORMAT)).good()
        self.assertIsNone(seen.result.structured_output)
        self.assertEqual(seen.result.result, "Bob, 3")


if __name__ == "__main__":
    unittest.main()
