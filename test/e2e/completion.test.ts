import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { manySided } from '../support/many-sided.ts';
import { PersonTerminal } from '../support/person-terminal.ts';
import { runProgram } from '../support/run-program.ts';
import { type CommandRun, said, startTrunkline, trunkline } from '../support/run-trunkline.ts';

const BIN = resolve(import.meta.dirname, '../../bin/trunkline.js');

describe('completion of a shell', () => {
  const home = realpathSync(mkdtempSync(join(tmpdir(), 'trunkline-completion-')));
  const project = join(home, 'project');
  const env = { HOME: home, XDG_STATE_HOME: join(home, 'state'), PATH: `${join(home, 'bin')}:${process.env['PATH']}` };
  let gateway: CommandRun;
  before(async () => {
    for (const folder of ['bin', 'project/files', 'empty']) mkdirSync(join(home, folder), { recursive: true });
    for (const name of ['trunkline', 'tl']) {
      const file = join(home, 'bin', name);
      writeFileSync(file, `#!/bin/sh\nexec '${process.execPath}' '${BIN}' "$@"\n`);
      chmodSync(file, 0o755);
    }
    const mcpServers = { memory: manySided('memory'), minutes: manySided('minutes') };
    writeFileSync(join(project, '.mcp.json'), JSON.stringify({ mcpServers }));
    gateway = startTrunkline(['--port', '0', '--control-port', '0'], { cwd: project, env });
    await said(gateway, 'Servers');
  });
  after(async () => {
    gateway.process.kill();
    await gateway.exited;
    rmSync(home, { recursive: true, force: true });
  });
  const words = async (folder: string, ...line: string[]): Promise<string[]> => {
    const { code, out, err } = await trunkline(['__complete', '--', ...line], { cwd: join(home, folder), env });
    assert.deepEqual([code, err], [0, ''], line.join(' '));
    return out.split('\n').flatMap((text) => (text === '' ? [] : text.split('\t')[0]!));
  };

  test('it knows commands, options, their values, servers, tools and clients from the program and its gateway', async () => {
    assert.deepEqual(await words('project', 'sta'), ['status', 'start', ':files']);
    assert.deepEqual(await words('project', 'help', 'conn'), ['connections']);
    assert.deepEqual(await words('project', 'drift', 'app'), ['approve']);
    assert.deepEqual(await words('project', 'stop', '--'), ['--now', '--data-dir', '--json', '--config', '--help']);
    assert.deepEqual(await words('project', 'add', '-t', 's'), ['stdio', 'sse']);
    assert.deepEqual(await words('project', 'status', 'm'), ['memory', 'minutes']);
    assert.deepEqual(await words('project', 'status', 'memory', ''), []);
    assert.deepEqual(await words('project', 'call', 'minutes.e'), ['minutes.echo', 'minutes.environment']);
    assert.deepEqual(await words('project', 'link', 'cu'), ['cursor']);
    assert.deepEqual(await words('project', '--', 'npx', ''), [':files']);
    // From the folder's gateway alone, unless another is named.
    assert.deepEqual(await words('empty', 'status', 'm'), []);
    assert.deepEqual(await words('empty', 'status', '--config', join(project, '.mcp.json'), 'me'), ['memory']);
  });

  test('bash', async () => {
    const script = [
      'source <(trunkline completion bash)',
      'reply() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _trunkline "$1"; echo "${COMPREPLY[*]}"; }',
      'complete -p trunkline tl',
      'reply trunkline sto; reply tl call memory.ech; reply tl status mi',
    ].join('\n');
    const { out, err } = await runProgram(['bash', '--norc', '-uc', script], { cwd: project, env });
    assert.deepEqual(out.split('\n').slice(-4), ['stop', 'memory.echo', 'minutes', ''], err);
    assert.match(out, /complete -F _trunkline trunkline\n/);
  });

  for (const [shell, start, load] of [
    ['bash', 'bash --norc -i', 'source <(trunkline completion bash)'],
    ['zsh', 'zsh -f -i', 'autoload -U compinit && compinit -u; source <(trunkline completion zsh)'],
    ['fish', 'fish --no-config -i', 'trunkline completion fish | source'],
  ] as const) {
    test(`${shell}: a person presses Tab`, async () => {
      const person = await PersonTerminal.open([], {
        cwd: project,
        columns: 100,
        rows: 24,
        env: { ...env, PS1: '$ ' },
        script: () => `exec ${start}`,
      });
      person.type(`${load}; echo loa''ded\r`);
      await person.sees(/^loaded$/m);
      person.type('tl conn\t');
      await person.sees(/tl connections/);
      person.type('\x15trunkline call memory.ech\t');
      await person.sees(/trunkline call memory\.echo/);
      person.type('\x15cat fil\t');
      await person.sees(/cat files\//);
      person.type('\x15trunkline check fil\t');
      await person.sees(/trunkline check files\//);
      person.type('\x15exit\r');
      await person.exited;
    });
  }
});
