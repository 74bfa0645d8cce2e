import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { InputPrompt } from '../../config/document/inputs.ts';
import { runProgram } from '../program.ts';

/** A user with these files below the home folder, who is in `folder` there. `ask`: null without a terminal. */
function user(
  t: TestContext,
  files: Readonly<Record<string, object | string>>,
  ask: InputPrompt | null = null,
  folder = 'project',
) {
  const home = mkdtempSync(join(tmpdir(), 'trunkline-import-'));
  t.after(() => rmSync(home, { recursive: true, force: true }));
  const cwd = join(home, folder);
  mkdirSync(cwd, { recursive: true });
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(home, name)), { recursive: true });
    writeFileSync(join(home, name), typeof content === 'string' ? content : JSON.stringify(content));
  }
  const run = async (words: string, env: Readonly<Record<string, string>> = {}) => {
    const printed = { out: '', err: '' };
    const code = await runProgram(words.split(' '), {
      out: (text) => {
        printed.out += text;
      },
      err: (text) => {
        printed.err += text;
      },
      env: { HOME: home, XDG_STATE_HOME: join(home, 'state'), ...env },
      cwd,
      version: '1.2.3',
      ask,
    });
    return { code, ...printed };
  };
  return {
    run,
    file: (name: string) => join(home, name),
    /** The definitions that `init` writes, which are those that `import` adds. */
    async definitions() {
      const { code, err } = await run('init');
      assert.equal(code, 0, err);
      return JSON.parse(readFileSync(join(cwd, 'trunkline.json'), 'utf8')).mcpServers;
    },
    async secrets(): Promise<readonly string[]> {
      const { secrets } = JSON.parse((await run('secret list --json')).out);
      return secrets.map(({ name }: { name: string }) => name).sort();
    },
  };
}

const DESKTOP = '.config/Claude/claude_desktop_config.json';
const VSCODE = '.config/Code/User/mcp.json';
const yes: InputPrompt = async () => 'y';

test('equal definitions of clients and projects are one server, unless they name a file of their folder', async (t) => {
  const memory = { command: 'npx', args: ['-y', '@scope/memory'] };
  const notes = { command: 'npx', args: ['notes', '--folder=./notes'] };
  const script = { command: 'node', args: ['server.js'] };
  const moved = { ...memory, cwd: '/srv' };
  const { run } = user(t, {
    [DESKTOP]: { mcpServers: { memory, notes, script } },
    '.cursor/mcp.json': { mcpServers: { memory, notes, script, moved } },
    'project/.mcp.json': { mcpServers: { memory } },
    'project/opencode.jsonc': { mcp: { memory: { type: 'local', command: ['npx', '-y', '@scope/memory'] } } },
    '.config/Claude/server.js': '',
  });
  const { code, out, err } = await run('import --yes');
  assert.equal(code, 0, err + out);
  assert.match(out, /memory +npx -y @scope\/memory +\(\.mcp\.json, opencode\.jsonc, Claude Desktop, Cursor\)/);
  const lines = [...out.matchAll(/^\+ (\S+)/gm)].map(([, name]) => name);
  assert.deepEqual(lines, ['memory', 'notes', 'script', 'notes-cursor', 'script-cursor', 'moved'], out);
});

test('a file of a client that is read as one of the project, too, is read once', async (t) => {
  const disabled = { mcpServers: { a: { command: 'x', disabled: true } } };
  const { run, file } = user(t, { '.cursor/mcp.json': disabled }, null, '');
  const { out } = await run('import --yes --json');
  assert.equal(JSON.parse(out).left.length, 1, out);
  writeFileSync(file('.cursor/mcp.json'), JSON.stringify({ mcpServers: { a: { command: 'x' } } }));
  assert.match((await run('import --yes')).out, /\(Cursor\)/);
});

test('import takes over the names of variables to inherit and the login settings of clients', async (t) => {
  const { definitions, secrets, run } = user(
    t,
    {
      '.codex/config.toml':
        '[mcp_servers.codex]\ncommand = "x"\nenv_vars = ["GITHUB_TOKEN"]\n' +
        '[mcp_servers.scoped]\nurl = "https://scoped.example/mcp"\nscopes = ["read", "write"]\n',
      '.config/goose/config.yaml':
        'extensions:\n  goose: { type: stdio, cmd: x, args: [], env_keys: [SLACK_TOKEN], enabled: true }\n',
      '.cursor/mcp.json': {
        mcpServers: {
          cursor: {
            url: 'https://cursor.example/mcp',
            auth: { CLIENT_ID: 'client-1', CLIENT_SECRET: 'very-secret-1', scopes: ['a'] },
          },
        },
      },
      '.gemini/settings.json': {
        mcpServers: {
          gemini: { httpUrl: 'https://g.example/mcp', oauth: { clientId: 'c', clientSecret: '${GEMINI}' } },
        },
      },
    },
    yes,
  );
  assert.equal((await run('import', { GEMINI: 'secret-of-gemini' })).code, 0);
  const { codex, scoped, goose, cursor, gemini } = await definitions();
  assert.deepEqual([codex.inheritEnv, goose.inheritEnv], [['GITHUB_TOKEN'], ['SLACK_TOKEN']]);
  assert.deepEqual(scoped.auth, { scopes: ['read', 'write'] });
  const clientSecret = '${secret:cursor-clientsecret}';
  assert.deepEqual(cursor.auth, { clientId: 'client-1', clientSecret, scopes: ['a'] });
  assert.deepEqual(gemini.auth, { clientId: 'c', clientSecret: '${GEMINI}' });
  assert.deepEqual(await secrets(), ['cursor-clientsecret']);
});

const WITH_INPUTS = {
  inputs: [
    { id: 'token', type: 'promptString', description: 'A token', password: true },
    { id: 'team', type: 'promptString', description: 'The team' },
    { id: 'mode', type: 'promptString', default: 'fast' },
  ],
  servers: {
    a: { command: 'x', args: ['${input:mode}', '${input:team}'], env: { T: '${input:token}' } },
    b: { type: 'http', url: 'https://b.example/${input:team}/mcp', headers: { K: '${input:other}' } },
    c: { command: 'x' },
  },
};

test('import asks for the inputs of a file once, after the plan, and stores the secret ones', async (t) => {
  const asked: string[] = [];
  const answers: Readonly<Record<string, string>> = { 'y/N': 'y', token: 'token-1', team: 'r${d}', other: 'other-1' };
  const ask: InputPrompt = async ({ id, description, password }) => {
    asked.push(`${description}${password ? ' *' : ''}`);
    return answers[id] ?? '';
  };
  const { definitions, secrets, run } = user(t, { [VSCODE]: WITH_INPUTS }, ask);
  const { code, out, err } = await run('import');
  assert.equal(code, 0, err + out);
  assert.deepEqual(asked, ['Add these 3 servers?', 'a: mode', 'a: The team', 'a: A token *', 'b: other *']);
  assert.deepEqual(await secrets(), ['a-token', 'b-other']);
  const { a, b, c } = await definitions();
  assert.deepEqual([a.args, a.env], [['fast', 'r$${d}'], { T: '${secret:a-token}' }]);
  assert.deepEqual([b.url, b.headers], ['https://b.example/r$${d}/mcp', { K: '${secret:b-other}' }]);
  assert.equal(c.command, 'x');
});

test('without a terminal, variables give the inputs; a server that lacks one is left out with a reason', async (t) => {
  const { run, secrets } = user(t, { [VSCODE]: WITH_INPUTS });
  const env = { TRUNKLINE_INPUT_TOKEN: 'token-1', TRUNKLINE_INPUT_TEAM: 'red' };
  const { code, out } = await run('import --yes --json', env);
  const { added, left } = JSON.parse(out);
  assert.deepEqual([code, added, left.length, left[0].name], [1, ['a', 'c'], 1, 'b'], out);
  assert.match(left[0].reason, /its input "other" has no value; set TRUNKLINE_INPUT_OTHER, or import in a terminal/);
  assert.deepEqual(await secrets(), ['a-token']);
});

test('import moves plain secrets of arguments and addresses to the store, and does not show them', async (t) => {
  const args = [
    'mcp-remote',
    'https://x.example/mcp?api_key=key-00001&v=2',
    '--header',
    'Authorization: Bearer tok-00001',
  ];
  const database = ['run', '-e', 'DB_TOKEN=tok-00002', 'image', '--api-key', 'key-00002', '--password=pass-0001'];
  const { definitions, secrets, run } = user(
    t,
    {
      '.cursor/mcp.json': {
        mcpServers: {
          remote: { command: 'npx', args },
          database: {
            command: 'docker',
            args: [...database, 'postgres://me:pass-0002@db.example/x', '--token', '${T}'],
          },
          web: { url: 'https://web.example/mcp?webApiKey=key-00003' },
          plain: { command: 'npx', args: ['-y', 'github-copilot', '--token-file', '/run/token-1'] },
        },
      },
    },
    yes,
  );
  const { code, out, err } = await run('import', { T: 'token-of-t' });
  assert.equal(code, 0, err + out);
  assert.doesNotMatch(out, /key-0|tok-0|pass-0/);
  const { remote, database: moved, web, plain } = await definitions();
  const key = '${secret:remote-api_key}';
  const header = 'Authorization: Bearer ${secret:remote-authorization}';
  assert.deepEqual(remote.args, ['mcp-remote', `https://x.example/mcp?api_key=${key}&v=2`, '--header', header]);
  assert.deepEqual(moved.args, [
    ...['run', '-e', 'DB_TOKEN=${secret:database-db_token}', 'image', '--api-key', '${secret:database-api-key}'],
    ...['--password=${secret:database-password}', 'postgres://me:${secret:database-password-2}@db.example/x'],
    ...['--token', '${T}'],
  ]);
  assert.equal(web.url, 'https://web.example/mcp?webApiKey=${secret:web-webapikey}');
  assert.deepEqual(plain.args, ['-y', 'github-copilot', '--token-file', '/run/token-1']);
  assert.equal((await secrets()).length, 7);
});

test('import recognises a gateway that does not run by its port and by its link, and leaves it out', async (t) => {
  const at = (port: number) => ({ url: `http://127.0.0.1:${port}/mcp` });
  const { run, file } = user(t, {
    'project/trunkline.json': { mcpServers: {}, listen: { port: 4999 } },
    '.cursor/mcp.json': { mcpServers: { other: at(4997), tl: at(4999) } },
    '.gemini/settings.json': { mcpServers: {} },
  });
  const imported = async () => JSON.parse((await run('import --yes --json')).out);
  assert.match((await run('link gemini --yes')).out, /Gemini CLI +linked/);
  writeFileSync(file('project/trunkline.json'), JSON.stringify({ mcpServers: {}, listen: { port: 4998 } }));
  writeFileSync(file('.cursor/mcp.json'), JSON.stringify({ mcpServers: { other: at(4997), tl: at(4998) } }));
  const { added, left } = await imported();
  assert.deepEqual(added, ['other']);
  assert.deepEqual(left.map(({ name, reason }: { name: string; reason: string }) => `${name}: ${reason}`).sort(), [
    'tl (Cursor): it is Trunkline itself',
    'tl (Gemini CLI): it is Trunkline itself',
  ]);
});

test('a named file that is missing or broken is an error, and the others are imported all the same', async (t) => {
  const { run } = user(t, {
    'project/good.json': { mcpServers: { good: { url: 'https://h.example/mcp' } } },
    'project/broken.json': '{ "mcpServers":',
    '.cursor/mcp.json': '{ "mcpServers":',
  });
  for (const file of ['typo.json', 'broken.json', '.']) assert.equal((await run(`import ${file} --yes`)).code, 1, file);
  const { code, out } = await run('import typo.json good.json --yes --json');
  assert.deepEqual([code, JSON.parse(out).added], [1, ['good']]);
  // A broken file of a client is no error: the user did not name it.
  assert.equal((await run('import --yes')).code, 0);
});

test('without a running gateway, import and secrets use the data.dir of the nearest file', async (t) => {
  const { run, file, secrets } = user(t, {
    'project/trunkline.json': { mcpServers: {}, data: { dir: './state' } },
    'project/more.json': {
      mcpServers: { s: { url: 'https://h.example/mcp', headers: { Authorization: 'Bearer ghp_abcdef1234567890' } } },
    },
  });
  assert.equal((await run('import more.json --yes')).code, 0);
  assert.equal(existsSync(file('project/state/truth.db')), true);
  assert.deepEqual(await secrets(), ['s-authorization']);
  assert.match((await run('remove s')).out, /removed/);
});
