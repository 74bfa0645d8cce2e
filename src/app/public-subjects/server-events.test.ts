import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { loadConfig } from '../../config/load-config.ts';
import { Logger } from '../../telemetry/logger.ts';
import { createdEvent } from './server-announcements.ts';

const ENV = { KEY: 'k3y', PIN: '4711', LONG: 'a-long-secret', PLAIN: 'value of no secret', HOME: '/home/me' };

/** The event that reports a server with this definition in a file. */
async function reported(definition: object): Promise<Record<string, unknown>> {
  const text = JSON.stringify({ mcpServers: { one: definition } });
  const loaded = await loadConfig({ inline: [{ label: '<test>', text }], env: ENV, cwd: '/' });
  assert.ok(loaded.ok, JSON.stringify(loaded));
  const logger = Logger.silent();
  for (const secret of loaded.secrets) logger.addSecret(secret);
  const server = loaded.state.servers.get('one')!;
  return JSON.parse(createdEvent(server, (shown) => logger.redact(shown)).toString());
}

const argsOf = async (...args: string[]) =>
  (await reported({ command: 'npx', args, env: { A_TOKEN: 'in-env', B_KEY: '${PIN}', MODE: 'fast' } }))['args'];

test('S0.3 the members of a definition are published, with references in place of secrets', async () => {
  assert.deepEqual(
    await reported({
      command: '${userHome}/bin/server',
      args: [
        '-y',
        '@scope/server',
        '--port',
        '80',
        '--pin',
        '${PIN}',
        '--k=${env:KEY:-sk-default}',
        'x${LONG}y',
        '${HOME}/d',
      ],
      env: { TOKEN: 'abc' },
      description: 'finds a-long-secret things',
      timeoutMs: 5_000,
    }),
    {
      name: 'one',
      transport: 'stdio',
      description: 'finds [redacted] things',
      command: '/home/me/bin/server',
      args: ['-y', '@scope/server', '--port', '80', '--pin', '${PIN}', '--k=${env:KEY}', 'x${LONG}y', '/home/me/d'],
    },
  );
});

test('S0.3 literal arguments are published, except what may be a secret', async () => {
  const plain = ['-y', '@modelcontextprotocol/server-filesystem@2026.8.31', '/srv/data', '--read-only', '--port=80'];
  assert.deepEqual(await argsOf(...plain), plain);
  assert.deepEqual(await argsOf('-p', '8080:80', '--url', 'https://h.example/@scope/x'), [
    ...['-p', '8080:80', '--url', 'https://h.example/@scope/x'],
  ]);
  for (const args of [
    ['--token', 'hunter'],
    ['--token', '-hunter'],
    ['--token=hunter'],
    ['--api-key', 'hunter'],
    ['--password', 'hunter'],
    ['-p', 'hunter'],
    ['-phunter'],
    ['-u', 'me:hunter'],
    ['-H', 'X-Any: hunter'],
    ['--header', 'Authorization: Bearer hunter'],
    ['--header=X-Any: hunter'],
    ['Authorization:hunter'],
    ['{"apiKey":"hunter"}'],
    ['host=h;pwd=hunter'],
    ['DB_PASSWORD=hunter'],
    ['-e', 'ANY=hunter'],
    ['postgres://me:hunter@db/x'],
    ['--db=postgres://me:hunter@db/x'],
    ['https://h/mcp?any=hunter'],
    ['https://h/mcp#hunter'],
    ['sk-hunterhunter'],
    ['--x=ghp_hunterhunter'],
    ['eyJhunterhunter.hunter'],
    ['hunterHUNTERhunterHUNTER'],
    ['hunter123456'],
    ['https://h/hunter123456/mcp'],
    ['AKIAhunterhunter'],
  ]) {
    const shown = JSON.stringify(await argsOf(...args));
    assert.ok(!/hunter/i.test(shown), shown);
  }
  assert.deepEqual(await argsOf('in-env', 'x=4711', 'fast', '${PLAIN}', '--x', '$${LONG}'), [
    ...['[redacted]', 'x=[redacted]', 'fast', '${PLAIN}', '--x', '${LONG}'],
  ]);
});

test('S0.3 a command with its arguments is published as a reference where it came from one', async () => {
  assert.deepEqual((await reported({ command: 'npx -y server' }))['args'], ['-y', 'server']);
  const { command, args } = await reported({ command: '${PLAIN}' });
  assert.deepEqual([command, args], ['${PLAIN}', []]);
});

test('S0.3 an address is published with its path, without user, query and fragment, with references in place of secrets', async () => {
  const url = async (text: string, headers = {}) => (await reported({ url: text, headers }))['url'];
  assert.equal(await url('https://h.example:8443/v1/mcp?a=b'), 'https://h.example:8443/v1/mcp');
  assert.equal(await url('https://h.example/${KEY}/mcp'), 'https://h.example/${KEY}/mcp');
  assert.equal(await url('https://h.example/x?k=${KEY}'), 'https://h.example/x');
  assert.equal(await url('https://h.example/abcdef123456/mcp'), 'https://h.example/[redacted]/mcp');
  assert.equal(await url('https://h.example/k%65y9%39%39999abc/mcp'), 'https://h.example/[redacted]/mcp');
  assert.equal(
    await url('https://h.example/a-long-secret/mcp', { 'x-a': '${LONG}' }),
    'https://h.example/[redacted]/mcp',
  );
  assert.equal(await url('https://h.example/four/mcp', { 'x-a': 'four' }), 'https://h.example/[redacted]/mcp');
});

test('S0.3 a secret by reference is never published, whatever surrounds it', async () => {
  const around = fc.string({
    unit: fc.constantFrom('a', '-', '=', '/', ':', '@', '?', ' ', '"', '{', '$'),
    maxLength: 6,
  });
  await fc.assert(
    fc.asyncProperty(around, around, async (before, after) => {
      const args = [`${before.replaceAll('${', '$')}\${KEY}${after.replaceAll('${', '$')}`];
      const definition = {
        command: 'x',
        args: args.map((arg) => arg.replace(/\$+\$\{KEY/, '${KEY').replace(/\$\{$/, '')),
      };
      assert.ok(!JSON.stringify(await reported(definition)).includes('k3y'), args[0]);
    }),
    { numRuns: 60 },
  );
});

test('S0.3 keys with slashes and the text of a program are not published; paths are', async () => {
  assert.deepEqual(await argsOf('wJalrXUtnFEMI/K7MDENG/bPxRhunter'), ['[redacted]']);
  assert.deepEqual(await argsOf('--k=wJalrXUtnFEMI/K7MDENG/bPxRhunter'), ['--k=[redacted]']);
  for (const option of ['-c', '-lc', '-e', '--eval']) {
    assert.deepEqual(await argsOf(option, 'login hunter && run'), [option, '[redacted]']);
  }
  const plain = ['-c', 'server.json', '/srv/Data/release2/index.js', './build/main.js', '@scope/server-files'];
  assert.deepEqual(await argsOf(...plain), plain);
});
