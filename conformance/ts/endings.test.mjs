// How a run ends: limits, API failures and what the SDKs make of them, big output, odd text, many at once.

import assert from 'node:assert/strict';
import { describe } from 'node:test';

import { bash, both, calls, newest, Prompts, text, textOf } from './harness.mjs';

/** What each SDK throws after a bad result: the newest tells the result, the seed era only the exit code. */
function assertThrown(w, seen, wanted) {
  const said = seen.error?.message ?? '';
  if (w.isSeed) assert.match(said, /exited with code 1/, `${seen}`);
  else {
    assert.ok(said.startsWith('Claude Code returned an error result: '), `${seen}`);
    assert.match(said, wanted);
  }
}

describe('limits', { concurrency: 4 }, () => {
  both('maxTurns stops after the tools of the last round', async (w) => {
    const script = { turns: [calls(bash('echo round'))] };
    const seen = await w.run(script, 'go', { maxTurns: 2 });
    assert.equal(seen.result.subtype, 'error_max_turns');
    assert.equal(seen.result.is_error, w.endsAsError);
    assert.deepEqual(seen.result.errors, ['Reached maximum number of turns (2)']);
    assert.equal(seen.result.num_turns, 3);
    assert.equal(seen.result.result, undefined);
    assert.equal(seen.toolResults.length, 2);
    assert.equal(w.requests().length, 2);
    if (w.endsAsError) assertThrown(w, seen, /Reached maximum number of turns \(2\)/);
    else assert.equal(seen.error, undefined, `${seen}`);
  });

  both('maxTurns that is not reached changes nothing', async (w) => {
    (await w.run([calls(bash('echo one')), text('done')], 'go', { maxTurns: 2 })).good();
  });

  both('maxBudgetUsd stops a run that costs more', async (w) => {
    const turn = { ...calls(bash('touch made')), usage: { input_tokens: 900_000, output_tokens: 50_000 } };
    const seen = await w.run([turn, text('never')], 'go', { maxBudgetUsd: 0.001, allowedTools: ['Bash'] });
    assert.equal(seen.result.subtype, 'error_max_budget_usd', `${seen}`);
    assert.equal(seen.result.is_error, w.endsAsError);
    assert.deepEqual(seen.result.errors, ['Reached maximum budget ($0.001)']);
    assert.equal(w.requests().length, 1);
    if (w.endsAsError) assertThrown(w, seen, /Reached maximum budget \(\$0\.001\)/);
    else assert.equal(seen.error, undefined, `${seen}`);
  });

  both('a budget that is spent fails every later prompt too', async (w) => {
    await w.model([{ text: 'dear', usage: { input_tokens: 900_000 } }]);
    const prompts = new Prompts().push('one');
    const seen = await w.read(w.query(prompts, { maxBudgetUsd: 0.001 }), (message, { results }) => {
      if (message.type !== 'result') return;
      if (results.length === 1) prompts.push('two');
      else prompts.end();
    });
    assert.deepEqual(seen.results.map((r) => r.subtype), ['error_max_budget_usd', 'error_max_budget_usd'], `${seen}`);
    assert.equal(w.requests().length, 1);
  });
});

describe('API failures', { concurrency: 4 }, () => {
  both('400 is an error result that says why', async (w) => {
    const seen = await w.run([{ error: { status: 400, message: 'no such thing' } }], 'go');
    assert.equal(seen.result.subtype, 'success');
    assert.equal(seen.result.is_error, true);
    assert.match(seen.result.result, /^API Error: 400 .*no such thing/);
    assert.equal(seen.result.api_error_status, 400);
    assert.equal(seen.result.terminal_reason, 'api_error');
    const said = seen.of('assistant').at(-1);
    assert.equal(said.message.model, '<synthetic>');
    assert.equal(said.is_api_error_message, true);
    assertThrown(w, seen, /API Error: 400/);
  });

  both('401 is authentication_failed', async (w) => {
    const seen = await w.run([{ error: 401 }], 'go', { env: { CLAUDE_CODE_MAX_RETRIES: '0' } });
    assert.equal(seen.of('assistant').at(-1).error, 'authentication_failed');
    assert.match(seen.result.result, /^Failed to authenticate\. API Error: 401/);
    assertThrown(w, seen, /Failed to authenticate/);
  });

  both('404 is model_not_found', async (w) => {
    const seen = await w.run([{ error: 404, times: 2 }], 'go', { model: 'no-such-model' });
    assert.equal(seen.of('assistant').at(-1).error, 'model_not_found');
    assert.equal(seen.result.is_error, true);
    assertThrown(w, seen, /./);
  });

  both('429 is tried again after retry-after', async (w) => {
    const busy = { error: { status: 429, headers: { 'retry-after': '1' } } };
    const seen = (await w.run([busy, text('at last')], 'go')).good();
    assert.equal(seen.result.result, 'at last');
    const [retry] = seen.of('system', 'api_retry');
    assert.equal(retry.attempt, 1);
    assert.equal(retry.retry_delay_ms, 1000);
    assert.equal(retry.error_status, 429);
    assert.equal(retry.error, 'rate_limit');
  });

  both('500 until the retries are used up', async (w) => {
    const seen = await w.run({ turns: [{ error: 500 }] }, 'go', { env: { CLAUDE_CODE_MAX_RETRIES: '1' } });
    assert.equal(seen.of('system', 'api_retry').length, 1);
    assert.equal(seen.of('system', 'api_retry')[0].max_retries, 1);
    assert.equal(seen.of('assistant').at(-1).error, 'server_error');
    assert.equal(seen.result.is_error, true);
    assert.equal(w.requests().length, 2);
    assertThrown(w, seen, /500/);
  });

  both('nobody listening is a server_error', async (w) => {
    const env = { ANTHROPIC_BASE_URL: 'http://127.0.0.1:9', CLAUDE_CODE_MAX_RETRIES: '0' };
    const seen = await w.run([text('never')], 'go', { env });
    assert.equal(seen.result.is_error, true);
    assert.equal(seen.of('assistant').at(-1).error, 'server_error');
    assert.equal(seen.result.api_error_status ?? null, null);
    assertThrown(w, seen, /./);
  });

  both('no credential is said before any request', async (w) => {
    const seen = await w.run([text('never')], 'go', { env: { ANTHROPIC_API_KEY: undefined } });
    assert.equal(seen.of('assistant').at(-1).error, 'authentication_failed');
    assert.ok(seen.result.result.startsWith('Not logged in · Please run /login'), seen.result.result);
    assert.equal(w.requests().length, 0);
    assertThrown(w, seen, /Not logged in/);
  });

  both('an error result is forgotten by the next good one', async (w) => {
    await w.model([{ error: 400 }, text('good')]);
    const prompts = new Prompts().push('one');
    const seen = await w.read(w.query(prompts), (message, { results }) => {
      if (message.type !== 'result') return;
      if (results.length === 1) prompts.push('two');
      else prompts.end();
    });
    assert.deepEqual(seen.results.map((r) => r.is_error), [true, false], `${seen}`);
    assert.equal(seen.error, undefined, `${seen}`);
  });

  both('the fallback model takes over', async (w) => {
    const options = { model: 'claude-opus-4-5', fallbackModel: 'claude-sonnet-4-5' };
    const seen = (await w.run([{ error: 500 }, text('from the other')], 'go', options)).good();
    const [note] = seen.of('system', 'model_fallback');
    assert.equal(note.original_model, 'claude-opus-4-5');
    assert.equal(note.fallback_model, 'claude-sonnet-4-5');
    assert.equal(note.trigger, 'server_error');
    assert.deepEqual(w.requests().map((r) => r.body.model), ['claude-opus-4-5', 'claude-sonnet-4-5']);
    assert.equal(seen.of('assistant').at(-1).message.model, 'claude-sonnet-4-5');
  });

  both('a connection cut before anything was said is tried again', async (w) => {
    const seen = (await w.run([{ text: 'lost', cut: { before_headers: true } }, text('found')], 'go')).good();
    assert.equal(seen.result.result, 'found');
    assert.equal(seen.of('system', 'api_retry')[0].error_status, null);
  });

  both('max_tokens asks the model to go on', async (w) => {
    const seen = (await w.run([{ text: 'first half,', stop: 'max_tokens' }, text('second half')], 'go')).good();
    assert.equal(seen.result.result, 'second half');
    assert.equal(seen.of('user').filter((m) => m.isSynthetic).length, 1);
  });

  both('a call that is no JSON is an error of the call', async (w) => {
    const seen = (await w.run([calls({ name: 'Bash', raw: '{"command": ' }), text('sorry')], 'go')).good();
    assert.ok(seen.blocks('tool_use')[0].input.__unparsedToolInput, `${seen}`);
    assert.match(textOf(seen.toolResults[0]), /InputValidationError/);
    assert.equal(seen.toolResults[0].is_error, true);
  });

  both('an unknown tool is an error of the call', async (w) => {
    const seen = (await w.run([calls({ name: 'Teleport', input: {} }), text('sorry')], 'go')).good();
    assert.match(textOf(seen.toolResults[0]), /<tool_use_error>Error: No such tool available: Teleport/);
  });

  both('a failing command is an error of the call', async (w) => {
    const script = [calls(bash('echo out; echo err >&2; exit 3')), text('sorry')];
    const seen = (await w.run(script, 'go', { allowedTools: ['Bash'] })).good();
    assert.equal(seen.toolResults[0].is_error, true);
    assert.equal(textOf(seen.toolResults[0]), 'Exit code 3\nout\nerr');
  });
});

describe('size, text and number', { concurrency: 2 }, () => {
  both('5 MB of tool output are cut to what fits', async (w) => {
    const flood = bash("head -c 5000000 /dev/zero | tr '\\0' x; echo END");
    const seen = (await w.run([calls(flood), text('done')], 'go', { allowedTools: ['Bash'] })).good();
    assert.equal(seen.result.result, 'done');
    assert.notEqual(seen.toolResults[0].is_error, true);
    assert.match(textOf(seen.toolResults[0]), /x{1000}/);
    const longest = Math.max(...seen.messages.map((m) => JSON.stringify(m).length));
    assert.ok(longest < 1_000_000, `${longest}`);
    assert.ok(JSON.stringify(w.requests()[1].body).length < 1_000_000);
  });

  both('an answer of 2 MB arrives whole', async (w) => {
    const long = 'heron '.repeat(350_000);
    const script = { turns: [text(long)], defaults: { text_chunk: 0 } };
    const seen = (await w.run(script, 'go')).good();
    assert.equal(seen.result.result.length, long.length);
  });

  both('a prompt of 3 MB arrives whole', async (w) => {
    const long = `begin ${'stork '.repeat(500_000)}end`;
    (await w.run([text('done')], long)).good();
    assert.ok(JSON.stringify(w.requests()[0].body.messages[0]).includes(long));
  });

  both('any text goes through unharmed', async (w) => {
    const odd = 'Grüße 你好 🦢 👩‍👩‍👧 e\u0301 \u2028\u2029 \u0000\u001b[31m "quoted" \\n שלום \ufffd';
    const script = [{ text: '{{last_user_text}}' }, text('unused')];
    const seen = (await w.run(script, odd, { includePartialMessages: true })).good();
    assert.equal(seen.result.result, odd);
    const pieces = seen.of('stream_event').map((m) => m.event.delta?.text ?? '').join('');
    assert.equal(pieces, odd);
  });

  both('any text goes through a tool unharmed', async (w) => {
    const odd = 'Grüße 你好 🦢 שלום';
    const write = { name: 'Write', input: { file_path: w.path('vögel/🦢.txt'), content: odd } };
    const read = { name: 'Read', input: { file_path: w.path('vögel/🦢.txt') } };
    const script = [calls(write), calls(read), calls(bash(`printf '%s' '${odd}'`)), text('done')];
    const seen = (await w.run(script, 'go', { permissionMode: 'acceptEdits', allowedTools: ['Bash'] })).good();
    assert.ok(textOf(seen.toolResults[1]).includes(odd), `${seen}`);
    assert.equal(textOf(seen.toolResults[2]), odd);
  });

  both('output that is no UTF-8 does no harm', async (w) => {
    const script = [calls(bash("printf 'a\\377b'")), text('done')];
    const seen = (await w.run(script, 'go', { allowedTools: ['Bash'] })).good();
    assert.match(textOf(seen.toolResults[0]), /^a.+b$/);
  });

  newest('twenty sessions run side by side', async (w) => {
    await w.model({
      scope: 'conversation',
      turns: [calls(bash('echo "$PWD"')), { text: 'for {{first_user_text}}' }],
    });
    const runs = Array.from({ length: 20 }, (_, i) => w.read(w.query(`session ${i}`)));
    const all = await Promise.all(runs);
    for (const [i, seen] of all.entries()) assert.equal(seen.good().result.result, `for session ${i}`);
    assert.equal(new Set(all.map((seen) => seen.result.session_id)).size, 20);
    assert.equal(w.stderr, '');
  });
});
