// File checkpoints: `enableFileCheckpointing`, and `rewindFiles` with the ids of replayed prompts.

import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import { describe } from 'node:test';

import { bash, both, calls, every, newest, Prompts, text } from './harness.mjs';

const write = (file_path, content) => ({ name: 'Write', input: { file_path, content } });
const edit = (file_path, old_string, new_string) => ({ name: 'Edit', input: { file_path, old_string, new_string } });
const read = (file_path) => ({ name: 'Read', input: { file_path } });

/** What a host that wants to go back asks for. */
const checkpointing = {
  enableFileCheckpointing: true,
  extraArgs: { 'replay-user-messages': null },
  permissionMode: 'acceptEdits',
  allowedTools: ['Bash'],
};

/** Runs prompts one after the other and hands over their ids once all have their result. */
async function talk(w, script, count, options, then) {
  await w.model(script);
  const prompts = new Prompts().push('prompt 1');
  const ids = [];
  const query = w.query(prompts, options);
  const seen = await w.read(query, async (message, { results }) => {
    if (message.type === 'user' && message.isReplay) ids.push(message.uuid);
    if (message.type !== 'result') return;
    if (results.length < count) prompts.push(`prompt ${results.length + 1}`);
    else {
      try {
        await then(query, ids);
      } finally {
        prompts.end();
      }
    }
  });
  assert.equal(seen.error, undefined, `${seen}`);
  return { seen, ids };
}

describe('rewindFiles', { concurrency: 4 }, () => {
  every('goes back to before a prompt: edits, new files, modes', async (w) => {
    const [old, made] = [w.file('old.sh', 'one\n'), w.path('made.txt')];
    chmodSync(old, 0o755);
    const script = [
      calls(read(old), edit(old, 'one', 'two'), write(made, 'first\n')),
      text('1'),
      calls(edit(old, 'two', 'three'), bash('rm made.txt')),
      text('2'),
    ];
    await talk(w, script, 2, checkpointing, async (query, [first, second]) => {
      const told = await query.rewindFiles(second, { dryRun: true });
      assert.equal(told.canRewind, true);
      assert.deepEqual(told.filesChanged.map((file) => path.basename(file)).sort(), ['made.txt', 'old.sh']);
      assert.deepEqual([told.insertions, told.deletions], [2, 1]);
      assert.equal(readFileSync(old, 'utf8'), 'three\n', 'a dry run does nothing');
      assert.equal((await query.rewindFiles(second)).canRewind, true);
      assert.equal(readFileSync(old, 'utf8'), 'two\n');
      assert.equal(readFileSync(made, 'utf8'), 'first\n');
      assert.equal((await query.rewindFiles(first)).canRewind, true);
      assert.equal(readFileSync(old, 'utf8'), 'one\n');
      assert.equal(statSync(old).mode & 0o7777, 0o755);
      assert.equal(existsSync(made), false);
    });
  });

  both('works in a later run of the session, with the usual empty prompt', async (w) => {
    const file = w.file('f.txt', 'before\n');
    const { seen, ids } = await talk(w, [calls(read(file), edit(file, 'before', 'after')), text('1')], 1, checkpointing, () => {});
    assert.equal(readFileSync(file, 'utf8'), 'after\n');
    const session = seen.results[0].session_id;
    const copies = readdirSync(path.join(w.config, 'file-history', session));
    assert.match(copies[0], /^[0-9a-f]{16}@v1$/);
    w.server.kill('SIGKILL');
    await w.model({ turns: [text('nothing to do')] });
    const query = w.query('', { ...checkpointing, resume: session });
    for await (const _message of query) {
      await query.rewindFiles(ids[0]);
      break;
    }
    assert.equal(readFileSync(file, 'utf8'), 'before\n');
  });

  both('works in a fork, for the prompts of its source', async (w) => {
    const file = w.file('f.txt', 'before\n');
    const { seen, ids } = await talk(w, [calls(read(file), edit(file, 'before', 'after')), text('1')], 1, checkpointing, () => {});
    const source = seen.results[0].session_id;
    const query = w.query('', { ...checkpointing, resume: source, forkSession: true });
    let fork;
    for await (const message of query) {
      fork = message.session_id;
      await query.rewindFiles(ids[0]);
      break;
    }
    assert.notEqual(fork, source);
    assert.equal(readFileSync(file, 'utf8'), 'before\n');
    assert.equal(w.requests().length, 2, 'an empty prompt asks nobody');
  });

  every('the conversation goes on after it', async (w) => {
    const file = w.path('f.txt');
    await w.model([calls(write(file, '1')), text('one'), text('two')]);
    const prompts = new Prompts().push('a');
    const query = w.query(prompts, checkpointing);
    let id;
    const seen = await w.read(query, async (message, { results }) => {
      if (message.type === 'user' && message.isReplay) id ??= message.uuid;
      if (message.type !== 'result') return;
      if (results.length > 1) return prompts.end();
      await query.rewindFiles(id);
      prompts.push('b');
    });
    assert.deepEqual(seen.results.map((r) => r.result), ['one', 'two'], `${seen}`);
    assert.equal(existsSync(file), false);
  });

  every('refuses what it does not know', async (w) => {
    const unknown = '00000000-0000-4000-8000-000000000000';
    await talk(w, [text('1')], 1, checkpointing, async (query) => {
      await assert.rejects(query.rewindFiles(unknown), /No file checkpoint found for this message\./);
      const told = await query.rewindFiles(unknown, { dryRun: true });
      assert.deepEqual(told, { canRewind: false, error: 'No file checkpoint found for this message.' });
    });
  });

  newest('is refused where nobody asked for checkpoints', async (w) => {
    await talk(w, [text('1')], 1, {}, async (query) => {
      await assert.rejects(query.rewindFiles('00000000-0000-4000-8000-000000000000'), /File rewinding is not enabled\./);
    });
    assert.equal(existsSync(path.join(w.config, 'file-history')), false);
  });

  newest('a folder that is gone comes back with its files', async (w) => {
    mkdirSync(w.path('sub'));
    const file = w.file('sub/f.txt', 'here\n');
    await talk(w, [calls(read(file), edit(file, 'here', 'there')), text('1')], 1, checkpointing, async (query, [id]) => {
      rmSync(w.path('sub'), { recursive: true });
      const done = await query.rewindFiles(id);
      assert.equal(done.skippedLinks, 0);
      assert.equal(readFileSync(file, 'utf8'), 'here\n');
    });
  });
});
