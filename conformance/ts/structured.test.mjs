// Structured output: `outputFormat` in, `structured_output` of the result out.

import assert from 'node:assert/strict';
import { describe } from 'node:test';

import { bash, calls, every, Prompts, text, textOf } from './harness.mjs';

const schema = {
  type: 'object',
  properties: { name: { type: 'string' }, age: { type: 'integer' } },
  required: ['name', 'age'],
  additionalProperties: false,
};
const outputFormat = { type: 'json_schema', schema };
const give = (input) => calls({ name: 'StructuredOutput', input });
const bob = { name: 'Bob', age: 3 };

describe('structured output', { concurrency: 4 }, () => {
  every('a fitting answer ends the turn', async (w) => {
    const seen = (await w.run([give(bob)], 'who', { outputFormat })).good();
    assert.deepEqual(seen.result.structured_output, bob);
    assert.deepEqual(JSON.parse(seen.result.result), bob);
    assert.ok(seen.init.tools.includes('StructuredOutput'));
    const [request] = w.requests();
    const tool = request.body.tools.find((tool) => tool.name === 'StructuredOutput');
    assert.deepEqual(tool.input_schema, schema);
    assert.equal(w.requests().length, 1);
  });

  every('tools may come first', async (w) => {
    const seen = (await w.run([calls(bash('echo 3')), give(bob)], 'who', { outputFormat, allowedTools: ['Bash'] })).good();
    assert.deepEqual(seen.result.structured_output, bob);
  });

  every('an answer that does not fit is told what is wrong and may be mended', async (w) => {
    const seen = (await w.run([give({ name: 7 }), give(bob)], 'who', { outputFormat })).good();
    const fault = textOf(seen.toolResults[0]);
    assert.match(fault, /^Output does not match required schema: /);
    assert.match(fault, /root: must have required property 'age'/);
    assert.match(fault, /\/name: must be string/);
    assert.deepEqual(seen.result.structured_output, bob);
  });

  every('five wrong answers are an error', async (w) => {
    const seen = await w.run({ turns: [give({ name: 'x' })] }, 'who', { outputFormat });
    assert.equal(seen.result.subtype, 'error_max_structured_output_retries', `${seen}`);
    assert.equal(seen.result.is_error, true);
    assert.equal(w.requests().length, 5);
    assert.equal(seen.result.structured_output, undefined);
    assert.ok(seen.error, 'the SDK throws');
  });

  every('the number of tries can be set', async (w) => {
    const env = { MAX_STRUCTURED_OUTPUT_RETRIES: '2' };
    const seen = await w.run({ turns: [give({ name: 'x' })] }, 'who', { outputFormat, env });
    assert.equal(seen.result.subtype, 'error_max_structured_output_retries', `${seen}`);
    assert.equal(w.requests().length, 2);
  });

  every('text alone is asked about once', async (w) => {
    const mended = (await w.run([text('Bob, 3'), give(bob)], 'who', { outputFormat })).good();
    assert.deepEqual(mended.result.structured_output, bob);
    assert.ok(mended.userTexts.some((said) => said.startsWith('[structured-output-enforce]')), `${mended}`);
  });

  every('text twice is text', async (w) => {
    const seen = (await w.run({ turns: [text('Bob, 3')] }, 'who', { outputFormat })).good();
    assert.equal(seen.result.structured_output, undefined);
    assert.equal(seen.result.result, 'Bob, 3');
    assert.equal(w.requests().length, 2);
  });

  every('every prompt of a session gets its own', async (w) => {
    const ann = { name: 'Ann', age: 4 };
    await w.model([give(bob), give(ann)]);
    const prompts = new Prompts().push('one');
    const seen = await w.read(w.query(prompts, { outputFormat }), (message, { results }) => {
      if (message.type !== 'result') return;
      if (results.length === 1) prompts.push('two');
      else prompts.end();
    });
    assert.deepEqual(seen.results.map((r) => r.structured_output), [bob, ann], `${seen}`);
  });

  every('a resumed session answers in the shape of its own run', async (w) => {
    const first = (await w.run([text('hello')], 'hi')).good();
    w.server.kill('SIGKILL');
    await w.model([give(bob)]);
    const seen = (await w.read(w.query('who', { outputFormat, resume: first.result.session_id }))).good();
    assert.deepEqual(seen.result.structured_output, bob);
    w.server.kill('SIGKILL');
    await w.model([text('bye')]);
    const last = (await w.read(w.query('bye', { resume: first.result.session_id }))).good();
    assert.equal(last.result.structured_output, undefined);
  });

  every('the last words of the turn are its data, whatever was said around it', async (w) => {
    const script = [text('thinking aloud'), { text: 'here', tools: give(bob).tools }];
    const seen = (await w.run(script, 'who', { outputFormat })).good();
    assert.deepEqual(JSON.parse(seen.result.result), bob);
    assert.deepEqual(seen.result.structured_output, bob);
    assert.equal(w.requests().length, 2);
  });

  every('limits hold: the last round may still answer', async (w) => {
    const late = await w.run([text('no data'), give(bob)], 'who', { outputFormat, maxTurns: 1 });
    assert.equal(late.result.subtype, 'error_max_turns', `${late}`);
    assert.equal(late.result.is_error, w.endsAsError);
    w.server.kill('SIGKILL');
    await w.model([calls(bash('true')), give(bob)]);
    const seen = (await w.read(w.query('who', { outputFormat, maxTurns: 2, allowedTools: ['Bash'] }))).good();
    assert.deepEqual(seen.result.structured_output, bob);
  });

  every('a schema may refer to itself and to its definitions', async (w) => {
    const tree = {
      $ref: '#/definitions/node',
      definitions: {
        node: {
          type: 'object',
          properties: { name: { type: 'string' }, parts: { type: 'array', items: { $ref: '#/definitions/node' } } },
          required: ['name'],
        },
      },
    };
    const good = { name: 'a', parts: [{ name: 'b', parts: [] }] };
    const script = [give({ name: 'a', parts: [{}] }), give(good)];
    const seen = (await w.run(script, 'who', { outputFormat: { type: 'json_schema', schema: tree } })).good();
    assert.match(textOf(seen.toolResults[0]), /\/parts\/0: must have required property 'name'/);
    assert.deepEqual(seen.result.structured_output, good);
    const tool = w.requests()[0].body.tools.find((tool) => tool.name === 'StructuredOutput');
    assert.equal(tool.input_schema.type, 'object', 'the API wants to know');
  });

  every('a schema that allows no object ends the run before it begins', async (w) => {
    const list = { type: 'json_schema', schema: { type: 'array', items: { type: 'string' } } };
    const seen = await w.run([text('never')], 'who', { outputFormat: list });
    assert.ok(seen.error);
    await w.complaint(/--json-schema is not a valid JSON Schema: data: must have the type object/);
    assert.equal(w.requests().length, 0);
  });

  every('a schema that is none ends the run before it begins', async (w) => {
    const bad = { type: 'json_schema', schema: { type: 'nonsense' } };
    const seen = await w.run([text('never')], 'who', { outputFormat: bad });
    assert.ok(seen.error);
    await w.complaint(/--json-schema is not a valid JSON Schema: /);
    assert.equal(w.requests().length, 0);
  });
});
