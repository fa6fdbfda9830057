// What the model is told: system prompt forms, agents, settings sources and memory files. The scripted model's log
// shows what it really got.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe } from 'node:test';

import { bash, both, calls, newest, systemOf, text, until } from './harness.mjs';

const preset = { type: 'preset', preset: 'claude_code' };

describe('system prompt', { concurrency: 4 }, () => {
  /** The system prompt the model got for these options. */
  async function sent(w, options) {
    (await w.run([text('done')], 'go', options)).good();
    return systemOf(w.requests()[0]);
  }

  /** More than the facts about the surroundings, which a session with any prompt may send. */
  const OWN_PROMPT = 800;

  both('none given leaves the own prompt out', async (w) => {
    const system = await sent(w, {});
    assert.ok(system.length < OWN_PROMPT, system);
  });

  both('a text takes the place of the own prompt', async (w) => {
    const system = await sent(w, { systemPrompt: 'You are a heron.' });
    assert.match(system, /^You are a heron\./);
    assert.ok(system.length < OWN_PROMPT, system);
  });

  newest('a list is sent part by part', async (w) => {
    const system = await sent(w, { systemPrompt: ['You are a heron.', 'You fish at dawn.'] });
    assert.match(system, /You are a heron\.[^]*You fish at dawn\./);
  });

  both('the preset is the own prompt, which knows the working folder', async (w) => {
    const system = await sent(w, { systemPrompt: preset });
    assert.ok(system.length > OWN_PROMPT, system);
    assert.ok(system.includes(w.cwd), system);
  });

  both('append goes behind the preset', async (w) => {
    const system = await sent(w, { systemPrompt: { ...preset, append: 'Mind the heron.' } });
    assert.ok(system.includes(w.cwd), system);
    assert.ok(system.indexOf('Mind the heron.') > OWN_PROMPT, system);
  });

  newest('excludeDynamicSections keeps the surroundings out of the prompt', async (w) => {
    const system = await sent(w, { systemPrompt: { ...preset, excludeDynamicSections: true } });
    assert.ok(system.length > OWN_PROMPT, system);
    assert.ok(!system.includes(w.cwd), system);
  });

  both('a prompt of 300 KB arrives whole', async (w) => {
    const long = `begin ${'heron '.repeat(50_000)}end`;
    assert.ok((await sent(w, { systemPrompt: long })).includes(long));
  });

  both('flags say the same as options', async (w) => {
    const system = await sent(w, { systemPrompt: preset, extraArgs: { 'append-system-prompt': 'Mind the stork.' } });
    assert.match(system, /Mind the stork\./);
  });
});

describe('agents', { concurrency: 4 }, () => {
  const reviewer = { description: 'reads code', prompt: 'You review.', tools: ['Read'], model: 'haiku' };

  newest('are listed by the session', async (w) => {
    await w.model([text('done')]);
    const query = w.query('go', { agents: { reviewer } });
    const reading = w.read(query);
    const agents = await query.supportedAgents();
    (await reading).good();
    const listed = agents.find((agent) => agent.name === 'reviewer');
    assert.equal(listed?.description, 'reads code');
    assert.equal(listed?.model, 'haiku');
  });

  both('are named by init', { todo: 'subagents are not there yet' }, async (w) => {
    const seen = (await w.run([text('done')], 'go', { agents: { reviewer } })).good();
    assert.ok(seen.init.agents.includes('reviewer'), `${seen.init.agents}`);
    assert.ok(seen.init.tools.includes('Task'));
  });

  both('260 KB of them do not stop a session', async (w) => {
    const agents = {};
    for (let i = 0; i < 26; i += 1) agents[`agent-${i}`] = { ...reviewer, prompt: `${i} ${'p'.repeat(10_240)}` };
    await w.model([text('done')]);
    const query = w.query('go', { agents });
    const reading = w.read(query);
    const answer = await query.initializationResult();
    const seen = (await reading).good();
    assert.equal(seen.result.result, 'done');
    assert.equal(w.stderr, '');
    if (answer.agents) {
      const names = answer.agents.map((agent) => agent.name);
      for (const name of Object.keys(agents)) assert.ok(names.includes(name), name);
    }
  });

  both('run as subagents', { todo: 'subagents are not there yet' }, async (w) => {
    const task = { name: 'Task', input: { description: 'look', prompt: 'RUN<sub> look', subagent_type: 'reviewer', run_in_background: false } };
    const script = {
      turns: [calls(task), { text: 'It said {{last_tool_result}}' }],
      routes: [{ when: { marker: 'sub' }, turns: [text('all is well')] }],
    };
    const seen = (await w.run(script, 'go', { agents: { reviewer } })).good();
    assert.match(seen.result.result, /all is well/);
    assert.match(systemOf(w.requests()[1]), /You review\./);
  });
});

describe('setting sources', { concurrency: 4 }, () => {
  const touch = [calls(bash('touch made')), text('done')];
  const rules = (permissions) => ({ permissions });

  /** Runs `touch made` without anybody to ask: only a rule can let it through. */
  async function touches(w, options) {
    (await w.run(touch, 'go', options)).good();
    return w.has('made');
  }

  const userSettings = (w, settings) => writeFileSync(path.join(w.config, 'settings.json'), JSON.stringify(settings));

  both('none: no file counts', async (w) => {
    w.file('.claude/settings.json', rules({ allow: ['Bash(touch *)'] }));
    userSettings(w, rules({ allow: ['Bash(touch *)'] }));
    assert.equal(await touches(w, { settingSources: [] }), false);
  });

  both('project: its deny rule counts', async (w) => {
    w.file('.claude/settings.json', rules({ deny: ['Bash(touch *)'] }));
    assert.equal(await touches(w, { settingSources: ['project'], allowedTools: ['Bash'] }), false);
  });

  both('project: its allow rule is withheld, in words, while nobody trusts the folder', async (w) => {
    w.file('.claude/settings.json', rules({ allow: ['Bash(touch *)'] }));
    assert.equal(await touches(w, { settingSources: ['project'] }), false);
    await until('a warning', () => /not been trusted/.test(w.stderr));
  });

  const trust = (w) => {
    const state = { projects: { [w.cwd]: { hasTrustDialogAccepted: true } } };
    writeFileSync(path.join(w.config, '.claude.json'), JSON.stringify(state));
  };

  both('project: its allow rule counts in a trusted folder', async (w) => {
    w.file('.claude/settings.json', rules({ allow: ['Bash(touch *)'] }));
    trust(w);
    assert.equal(await touches(w, { settingSources: ['project'] }), true);
    assert.equal(w.stderr, '');
  });

  both('local: its allow rule is withheld, in words, while nobody trusts the folder', async (w) => {
    w.file('.claude/settings.local.json', rules({ allow: ['Bash(touch *)'] }));
    assert.equal(await touches(w, { settingSources: ['local'] }), false);
    await until('a warning', () => /settings\.local\.json: this workspace has not been trusted/.test(w.stderr));
  });

  both('local: its allow rule counts in a trusted folder', async (w) => {
    w.file('.claude/settings.local.json', rules({ allow: ['Bash(touch *)'] }));
    trust(w);
    assert.equal(await touches(w, { settingSources: ['local'] }), true);
    assert.equal(w.stderr, '');
  });

  both('user: its allow rule counts, and only when asked for', async (w) => {
    userSettings(w, rules({ allow: ['Bash(touch *)'] }));
    assert.equal(await touches(w, { settingSources: ['user'] }), true);
  });

  both('a source that was not named does not count', async (w) => {
    userSettings(w, rules({ allow: ['Bash(touch *)'] }));
    assert.equal(await touches(w, { settingSources: ['project'] }), false);
  });

  both('settings on the command line count without any source', async (w) => {
    const settings = JSON.stringify(rules({ allow: ['Bash(touch *)'] }));
    assert.equal(await touches(w, { settingSources: [], extraArgs: { settings } }), true);
  });

  newest('the settings option counts', async (w) => {
    assert.equal(await touches(w, { settingSources: [], settings: rules({ allow: ['Bash(touch *)'] }) }), true);
  });

  both('an unknown source ends the run with its name', async (w) => {
    const seen = await w.run(touch, 'go', { settingSources: ['bogus'] });
    assert.match(String(seen.error), /exited with code 1/);
  });

  both('CLAUDE.md of the project reaches the model', async (w) => {
    w.file('CLAUDE.md', 'The heron is the emblem of this project.');
    (await w.run([text('done')], 'go', { settingSources: ['project'] })).good();
    assert.match(JSON.stringify(w.requests()[0].body), /The heron is the emblem/);
  });

  both('CLAUDE.md stays out without the project as a source', async (w) => {
    w.file('CLAUDE.md', 'The heron is the emblem of this project.');
    (await w.run([text('done')], 'go', { settingSources: [] })).good();
    assert.doesNotMatch(JSON.stringify(w.requests()[0].body), /The heron is the emblem/);
  });
});
