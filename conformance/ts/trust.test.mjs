// An untrusted folder, through the SDK: nothing of it runs, the host is told in a message, and a host that
// vouches for the folder gets all of it. The folder is `fixtures/one-of-each.json`, as in `crates/cli/tests/trust.rs`.

import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe } from 'node:test';

import { both, text } from './harness.mjs';

const fixture = JSON.parse(readFileSync(new URL('../fixtures/one-of-each.json', import.meta.url), 'utf8'));
const settingSources = ['user', 'project', 'local'];

function layOut(w) {
  for (const [name, content] of Object.entries(fixture.files)) w.file(name, content);
  mkdirSync(path.join(w.root, 'outside'));
}

const canaries = (w) => readdirSync(w.cwd).filter((name) => name.startsWith('canary')).sort();
const notices = (seen) => seen.of('system', 'informational').filter((m) => m.tag === 'workspace_untrusted');
const counts = (list) => Object.fromEntries(list.map(({ kind, count }) => [kind, count]));

describe('trust', () => {
  both('an untrusted folder runs nothing, and the host hears of each item', async (w) => {
    layOut(w);
    const seen = (await w.run([text('done')], 'go', { settingSources })).good();
    assert.deepEqual(canaries(w), []);
    assert.equal(seen.init.permissionMode, 'default');
    const [notice, ...more] = notices(seen);
    assert.ok(notice && more.length === 0, `one message wanted:\n${seen}`);
    for (const list of ['withheld', 'text_only', 'in_force']) {
      assert.deepEqual(counts(notice.workspace_trust[list]), fixture[list], list);
    }
    assert.ok(notice.content.endsWith(`lathe trust ${w.cwd}`), notice.content);
  });

  both('a host that vouches for the folder gets all of it', async (w) => {
    layOut(w);
    const env = { LATHE_TRUST_WORKSPACE: '1' };
    const seen = (await w.run([text('done')], 'go', { settingSources, env })).good();
    assert.deepEqual(notices(seen), []);
    for (const name of fixture.trusted) assert.ok(w.has(name), `${name}\n${seen}`);
    // The SDK of the seed era names a mode on the command line, which counts more than settings.
    if (!w.isSeed) assert.equal(seen.init.permissionMode, 'acceptEdits');
  });
});
