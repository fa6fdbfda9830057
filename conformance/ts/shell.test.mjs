// Bash as hosts see it: heartbeats of a long command, pictures, what git did, the user's aliases.

import assert from 'node:assert/strict';
import { readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe } from 'node:test';

import { bash, both, calls, every, newest, text, textOf } from './harness.mjs';

const allowed = { allowedTools: ['Bash'] };

// One pixel.
const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

describe('Bash', { concurrency: 8 }, () => {
  every('a command that takes long is shown to current hosts every 30 seconds', async (w) => {
    const seen = (await w.run([calls(bash('sleep 30.5; echo late')), text('done')], 'go', allowed)).good();
    const beats = seen.of('tool_progress');
    // The first generation was never seen to send one.
    assert.equal(beats.length, w.isSeed ? 0 : 1, `${seen}`);
    if (w.isSeed) return;
    const [call] = seen.blocks('tool_use');
    const { tool_use_id, tool_name, parent_tool_use_id, elapsed_time_seconds, heartbeat } = beats[0];
    assert.deepEqual(
      [tool_use_id, tool_name, parent_tool_use_id, elapsed_time_seconds, heartbeat],
      [`${call.id}-heartbeat-0`, 'Bash', call.id, 30, true],
    );
  });

  both('a picture that a command prints is a picture', async (w) => {
    const command = `printf 'data:image/png;base64,${PNG}'`;
    const seen = (await w.run([calls(bash(command)), text('done')], 'go', allowed)).good();
    assert.deepEqual(seen.toolResults[0].content[0].source, { type: 'base64', data: PNG, media_type: 'image/png' });
    const [frame] = seen.of('user').filter((m) => m.tool_use_result);
    assert.equal(frame.tool_use_result.isImage, true);
  });

  newest('a commit is told to programs', async (w) => {
    const git = 'git -c user.name=n -c user.email=e';
    const command = `git init -q -b main . && ${git} commit --allow-empty -m first`;
    const seen = (await w.run([calls(bash(command)), text('done')], 'go', allowed)).good();
    const [frame] = seen.of('user').filter((m) => m.tool_use_result);
    const { commit } = frame.tool_use_result.gitOperation;
    assert.deepEqual([commit.kind, commit.branch], ['committed', 'main']);
  });

  both('aliases and functions of the user work, and their snapshot does not stay', async (w) => {
    writeFileSync(path.join(w.home, '.bashrc'), "alias hello='echo hello'\ngreet() { hello $1; echo bye; }\n");
    const seen = (await w.run([calls(bash('hello you; greet me')), text('done')], 'go', allowed)).good();
    assert.equal(textOf(seen.toolResults[0]), 'hello you\nhello me\nbye');
    assert.deepEqual(readdirSync(path.join(w.config, 'shell-snapshots')), []);
  });
});
