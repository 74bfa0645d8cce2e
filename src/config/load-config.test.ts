import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { inspect } from 'node:util';
import { revealed } from '../model/secret.ts';
import { type LoadOptions, loadConfig } from './load-config.ts';
import { renderProblem } from './problem/problem.ts';

let folder = '';
before(() => {
  folder = mkdtempSync(join(tmpdir(), 'tl-load-'));
});
after(() => rmSync(folder, { recursive: true }));

async function load(content: unknown, options: Partial<LoadOptions> = {}, name = 'trunkline.json') {
  writeFileSync(join(folder, name), typeof content === 'string' ? content : JSON.stringify(content));
  return loadConfig({ files: [name], cwd: folder, env: { HOME: '/home/me' }, strict: true, ...options });
}

async function state(...args: Parameters<typeof load>) {
  const result = await load(...args);
  assert.ok(result.ok, result.ok ? '' : result.problems.map((problem) => renderProblem(problem)).join('\n'));
  return result.state;
}

async function codes(...args: Parameters<typeof load>): Promise<string[]> {
  const result = await load(...args);
  return (result.ok ? [] : result.problems).map(({ code }) => code);
}

const KEY = 'agent-key-0123456789';
const one = { command: 'x' };

test('a file with only a server gets the documented defaults', async () => {
  const { servers: _servers, files, ...settings } = await state({ mcpServers: { one } });
  assert.deepEqual(files, [join(folder, 'trunkline.json')]);
  assert.deepEqual(settings, {
    agents: new Map(),
    unknownCallers: 'refuse',
    listen: {
      host: '127.0.0.1',
      port: 4270,
      tls: null,
      publicUrl: null,
      trustedProxies: [],
      allowedHosts: [],
      allowedOrigins: [],
      anonymousRegistry: false,
      insecure: false,
      maxBodyBytes: 16 * 1024 * 1024,
      maxConnections: 16_384,
    },
    control: { host: '127.0.0.1', port: 4271, tls: null, token: null, allowedHosts: [], publicUrl: null },
    metricsToken: null,
    metricsAddress: null,
    telemetry: { traces: null, metrics: null },
    allowedCommands: [],
    sessions: { idleMs: 86_400_000, max: 20_000, maxPerPrincipal: 10_000 },
    firstListWaitMs: 2000,
    maxTimeoutMs: 600_000,
    maxProcesses: 256,
    pool: { idleTimeoutMs: 1_800_000, sleepAfterMs: 0, sweepMs: 300_000, maxErrors: 10 },
    dataDir: null,
    logLevel: 'info',
    cluster: null,
  });
});

test('one union of definitions for all transports, each with what it needs S2.22 check:A1', async () => {
  const { servers } = await state({
    mcpServers: {
      local: { command: 'a', args: ['b'], env: { C: 'd' } },
      remote: { type: 'streamable-http', url: 'https://x.example/mcp', headers: { A: 'b' } },
      old: { type: 'sse', url: 'https://x.example/sse' },
      plain: { type: 'json', url: 'https://x.example/rpc' },
    },
  });
  assert.deepEqual(
    [...servers.values()].map(({ transport: { type } }) => type),
    ['stdio', 'http', 'sse', 'json'],
  );
});

test('a setting that cannot be expanded is reported once, also if secrets have to be read first', async () => {
  const mcpServers = { one: { command: 'x', env: { A: '${secret:a}' } } };
  const content = { data: { dir: '${NOT_SET_A}' }, tls: { cert: '${NOT_SET_B}', key: 'k.pem' }, mcpServers };
  const secrets = async () => new Map([['a', '1']]);
  assert.deepEqual(await codes(content, { secrets }), ['TL1203', 'TL1203']);
});

test('a definition without a field that its type needs is refused S3.14 check:A1', async () => {
  assert.deepEqual(await codes({ mcpServers: { one: { type: 'stdio' } } }), ['TL1406']);
  assert.deepEqual(await codes({ mcpServers: { one: { type: 'streamable-http' } } }), ['TL1407']);
  assert.deepEqual(await codes({ mcpServers: { one: { type: 'sse' } } }), ['TL1407']);
  assert.deepEqual(await codes({ mcpServers: { one: { type: 'carrier-pigeon', url: 'https://x.example/' } } }), [
    'TL1405',
  ]);
  assert.deepEqual(await codes({ mcpServers: { '': one } }), ['TL1402']);
});

test('S1.5 check:C2 the pool’s numbers are settings, each checked separately: zero only where it means never', async () => {
  const { pool } = await state({ pool: { sweepMs: 1000, maxErrors: 3 } });
  assert.deepEqual(pool, { idleTimeoutMs: 1_800_000, sleepAfterMs: 0, sweepMs: 1000, maxErrors: 3 });
  for (const bad of [
    { idleTimeoutMs: 0 },
    { sweepMs: 0 },
    { sleepAfterMs: -1 },
    { maxErrors: 0 },
    { maxErrors: 1.5 },
    { sweepMs: '5m' },
  ]) {
    assert.equal((await codes({ pool: bad })).length, 1, JSON.stringify(bad));
  }
  assert.equal((await codes({ pool: { idleTimeout: 5 } })).length, 1);
});

test('agents have keys and servers, and unknown callers a mode S2.28', async () => {
  const { agents, unknownCallers } = await state(
    {
      mcpServers: { one, two: one },
      agents: {
        all: { key: '${AGENT_KEY}' },
        some: { key: KEY, servers: ['two'] },
        none: { key: `${KEY}-n`, servers: [] },
      },
      unknownCallers: 'allow',
    },
    { env: { AGENT_KEY: 'expanded-key-0123456789' } },
  );
  assert.equal(unknownCallers, 'allow');
  assert.equal(agents.get('all')!.key.reveal(), 'expanded-key-0123456789');
  assert.equal(agents.get('all')!.servers, null);
  assert.deepEqual(agents.get('some')!.servers, new Set(['two']));
  assert.deepEqual(agents.get('none')!.servers, new Set());
});

test('listening beyond loopback needs agents and either TLS or a trusted proxy, or insecure', async () => {
  const agents = { ci: { key: KEY } };
  const tls = { cert: 'c.pem', key: 'k.pem' };
  const listen = { host: '0.0.0.0' };
  assert.deepEqual(await codes({ listen, agents }), ['TL1601']);
  assert.deepEqual(await codes({ listen, tls }), ['TL1601']);
  assert.deepEqual(await codes({ listen, agents, tls }), []);
  assert.deepEqual(await codes({ listen, agents, tls, unknownCallers: 'allow' }), ['TL1601']);
  assert.deepEqual(await codes({ listen: { ...listen, trustedProxies: ['10.0.0.1'] }, agents }), []);
  assert.deepEqual(await codes({ listen: { ...listen, insecure: true } }), []);
  assert.deepEqual(await codes({ listen }, { overrides: { insecure: true } }), []);
  assert.deepEqual(await codes({ listen: { host: 'localhost' } }), []);
  assert.deepEqual(await codes({ listen: { host: '[::1]' } }), []);
  assert.deepEqual(await codes({ control: { host: '0.0.0.0' }, agents, tls }), ['TL1601']);
});

test('flags override the file', async () => {
  const overrides = { host: '127.0.0.2', port: 0, controlPort: 0, dataDir: '/data', logLevel: 'debug' } as const;
  const { listen, control, dataDir, logLevel } = await state(
    { listen: { port: 80 }, log: { level: 'error' } },
    { overrides },
  );
  assert.deepEqual([listen.host, listen.port, control.port, dataDir, logLevel], ['127.0.0.2', 0, 0, '/data', 'debug']);
});

test('several files are read as one, and a key may be in one of them only', async () => {
  writeFileSync(join(folder, 'a.json'), JSON.stringify({ mcpServers: { one }, log: { level: 'debug' } }));
  const files = ['a.json', 'trunkline.json'];
  assert.deepEqual([...(await state({ mcpServers: { two: one } }, { files })).servers.keys()], ['one', 'two']);
  assert.deepEqual(await codes({ mcpServers: { one }, log: { level: 'info' } }, { files }), ['TL1404', 'TL1103']);
});

test('a command after "--" must not have the name of a server in the file', async () => {
  const argvCommand = ['npx', '-y', 'One@1.0.0'];
  const result = await load({ mcpServers: { one } }, { argvCommand });
  assert.ok(!result.ok);
  assert.match(
    result.problems.map(({ code, message }) => `${code} ${message}`).join(),
    /^TL1404 .*"One".*trunkline\.json/,
  );
  const { servers } = await state({ mcpServers: { two: one } }, { argvCommand });
  assert.deepEqual([...servers.keys()], ['two', 'One']);
});

test('all errors are reported at once, in the order of the file', async () => {
  const text = `{
  "mcpServers": {
    "a": { "url": "nope" },
    "b": { "command": "x", "args": ["\${UNSET_ONE}"], "timeoutMs": "1" },
    "c": { "type": "stdio" }
  },
  "agents": { "d": { "key": "short" } }
}`;
  const result = await load(text);
  assert.ok(!result.ok);
  assert.deepEqual(
    result.problems.map(({ code, line }) => `${line} ${code}`),
    ['3 TL1408', '4 TL1203', '4 TL1302', '5 TL1406', '7 TL1501'],
  );
});

test('a mistake in a disabled server is a warning', async () => {
  const result = await load({ mcpServers: { one: { command: '${NOT_SET}', enabled: false }, two: one } });
  assert.ok(result.ok);
  assert.deepEqual([...result.state.servers.keys()], ['two']);
  assert.deepEqual(
    result.warnings.map(({ code }) => code),
    ['TL1203'],
  );
});

test('only needed inputs without another source are asked for, once', async () => {
  const asked: unknown[] = [];
  const content = {
    inputs: [
      { id: 'needed', type: 'promptString', description: 'The key', password: true },
      { id: 'idle', type: 'promptString' },
    ],
    servers: { one: { command: 'x', env: { A: '${input:needed}', B: '${input:needed}', C: '${input:known}' } } },
  };
  const { servers } = await state(content, {
    env: { TRUNKLINE_INPUT_KNOWN: 'from-env' },
    async inputs(question) {
      asked.push(question);
      return 'typed-in';
    },
  });
  assert.deepEqual(asked, [{ id: 'needed', description: 'The key', password: true }]);
  const { transport } = servers.get('one')!;
  assert.deepEqual(
    { ...(transport.type === 'stdio' && revealed(transport.env)) },
    { A: 'typed-in', B: 'typed-in', C: 'from-env' },
  );
});

test('no problem and no printed state shows a secret that is written in the file', async () => {
  const secrets = [
    'sk-header-11111111',
    'sk-env-22222222',
    'sk-agent-3333333333',
    'sk-url-44444444',
    'sk-arg-5555555',
    'sk-bare-66666666',
    'sk-nats-77777777',
    'sk-store-8888888',
  ];
  const [header, env, agent, url, arg, bare, nats, store] = secrets;
  const texts = [
    `{ "mcpServers": { "a": { "url": "https://u:${url}@x/", "headers": { "Authorization": "Bearer ${header}", "Bad Name": "${bare}" } },`,
    `"b": { "command": 5, "env": { "API_KEY": "${env}" }, "args": ["--token", "${arg}"] } }, "agents": { "c": { "key": "${agent}", "serverz": [] } },`,
    `"cluster": { "natz": 1, "nats": "nats://ann:a/${nats}@n", "store": "postgresql://t:a/${store}/b@db/x" } }`,
  ];
  const variants = [texts.join(''), texts.join('\n'), texts.join('').slice(0, -3), `${texts.join('')}}`];
  for (const text of variants) {
    const result = await load(text);
    assert.ok(!result.ok);
    const shown = [...result.problems, ...result.warnings]
      .map((problem) => renderProblem(problem) + JSON.stringify(problem))
      .join('\n');
    for (const secret of secrets) assert.ok(!shown.includes(secret), `${secret} in ${shown}`);
  }
  const good = await load({ mcpServers: { a: one }, agents: { c: { key: agent } } });
  assert.ok(
    good.ok &&
      !inspect(good.state, { depth: 9 }).includes(agent!) &&
      !JSON.stringify([...good.state.agents]).includes(agent!),
  );
});

test('secrets are listed for the scrubber, whole and without their scheme', async () => {
  const result = await load(
    {
      mcpServers: {
        a: {
          url: 'https://x.example/?api_key=in-the-url',
          headers: { Authorization: 'Bearer header-secret', Accept_Nothing: 'x' },
        },
        b: {
          command: 'x',
          args: ['--api-key=argument-secret', '--port', '80800000'],
          env: {
            MY_TOKEN: 'env-secret',
            MODE: 'harmless-value',
            REGION: 'eu-central-1-north',
            PLAIN: 'x81f3-unnamed-secret',
            STORE: 'db://me:in-the-address@host/',
            S: '${OF_ENV}',
          },
        },
      },
      agents: { c: { key: KEY } },
    },
    { env: { OF_ENV: 'expanded-secret' } },
  );
  assert.ok(result.ok);
  assert.deepEqual(
    [...result.secrets].sort(),
    [
      KEY,
      'Bearer header-secret',
      'argument-secret',
      'env-secret',
      'expanded-secret',
      'header-secret',
      'in-the-url',
      'x81f3-unnamed-secret',
      'db://me:in-the-address@host/',
      'in-the-address',
    ].sort(),
  );
});

test('reading a configuration runs no program', async () => {
  const marker = join(folder, 'ran');
  const content = `mcpServers:\n  a: { command: "touch ${marker}; $(touch ${marker})", args: [], env: { A: "$(touch ${marker})", B: "\`touch ${marker}\`" } }\n  b: !!js/function "require('fs').writeFileSync('${marker}','')"\n`;
  assert.deepEqual(await codes(content, { files: ['trunkline.yaml'] }, 'trunkline.yaml'), ['TL1104', 'TL1302']);
  assert.equal(existsSync(marker), false);
});

test('a pipe or device is refused at once', async (t) => {
  try {
    execFileSync('mkfifo', [join(folder, 'pipe.json')]);
  } catch {
    t.diagnostic('no mkfifo here');
    return;
  }
  for (const file of ['pipe.json', '/dev/zero', '/dev/null'])
    assert.deepEqual(await codes('{}', { files: [file] }), ['TL1002']);
});

test('a byte-order mark is accepted, and __proto__ is a name like any other', async () => {
  const { servers } = await state(
    '\ufeff{ "mcpServers": { "one": { "command": "x", "env": { "__proto__": "1", "constructor": "2" } } } }',
  );
  const { transport } = servers.get('one')!;
  assert.deepEqual(transport.type === 'stdio' && Object.entries(revealed(transport.env)), [
    ['__proto__', '1'],
    ['constructor', '2'],
  ]);
  assert.equal(({} as Record<string, unknown>)['constructor'], Object);
});

test('check:I2 a definition shows no value of its environment or headers in any way of printing', async () => {
  const { servers } = await state(
    '{ "mcpServers": { "one": { "command": "x", "env": { "PLAIN": "canary-1" } },' +
      ' "two": { "url": "https://x.example/mcp", "headers": { "X-Plain": "canary-2" } } } }',
  );
  for (const { transport } of servers.values()) {
    for (const shown of [JSON.stringify(transport), inspect(transport, { depth: 9 })]) {
      assert.match(shown, /PLAIN|X-Plain/);
      assert.doesNotMatch(shown, /canary/);
    }
  }
});

test('check:A10 a block of Continue is recognised by its form, in any folder', async () => {
  const block =
    'name: x\nversion: 0.0.1\nschema: v1\nmcpServers:\n  - name: one\n    command: x\n    env: { K: "${{ secrets.X }}" }\n';
  const { servers } = await state(block, { files: ['continue.yaml'], env: { X: 'kept' } }, 'continue.yaml');
  const { transport } = servers.get('one')!;
  assert.deepEqual({ ...(transport.type === 'stdio' && revealed(transport.env)) }, { K: 'kept' });
});

test('the syntax is recognised by content where the name does not show it', async () => {
  for (const content of [
    '// c\n{ "mcpServers": { "one": { "command": "x" } } }',
    'mcpServers:\n  one: { command: x }\n',
    '[mcp_servers.one]\ncommand = "x"\n',
  ]) {
    assert.deepEqual([...(await state(content, { files: ['settings'] }, 'settings')).servers.keys()], ['one']);
  }
});

test('loading does not load zod, and for a JSON file neither the YAML nor the TOML parser', () => {
  const script = `
    import { registerHooks } from 'node:module';
    const seen = new Set();
    registerHooks({ resolve(specifier, context, next) { seen.add(specifier); return next(specifier, context); } });
    const { loadConfig } = await import(${JSON.stringify(join(import.meta.dirname, 'load-config.ts'))});
    await loadConfig({ files: ['trunkline.json'], cwd: ${JSON.stringify(folder)}, env: {} });
    console.log(JSON.stringify(['zod', 'yaml', 'smol-toml', 'jsonc-parser'].filter((name) => seen.has(name))));`;
  writeFileSync(join(folder, 'trunkline.json'), '{"mcpServers":{}}');
  const printed = execFileSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' });
  assert.deepEqual(JSON.parse(printed), ['jsonc-parser']);
});
