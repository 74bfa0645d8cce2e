import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  definitionOf,
  type InputValues,
  type Package,
  type PackageTransport,
  type ServerJson,
  waysOf,
} from './server-json.ts';

/** Gives the value of the name, else the default. */
function given(values: Readonly<Record<string, readonly string[]>> = {}): InputValues {
  return { value: async (name, input) => values[name] ?? (input.default === undefined ? null : [input.default]) };
}

function server(parts: {
  readonly packages?: readonly Package[];
  readonly remotes?: readonly PackageTransport[];
}): ServerJson {
  return { name: 'com.example/one', version: '1.2.3', ...parts };
}

async function defined(parts: Parameters<typeof server>[0], values?: Parameters<typeof given>[0]): Promise<unknown> {
  return definitionOf(waysOf(server(parts))[0]!, undefined, given(values));
}

const STDIO = { type: 'stdio' };

test('packages are run by the program of their kind, at their version', async () => {
  const npm = { registryType: 'npm', identifier: '@example/server', version: '1.2.3', transport: STDIO };
  assert.deepEqual(await defined({ packages: [npm] }), { command: 'npx', args: ['-y', '@example/server@1.2.3'] });
  const pypi = {
    registryType: 'pypi',
    identifier: 'weather-mcp',
    version: '0.5.0',
    runtimeHint: 'uvx',
    transport: STDIO,
  };
  assert.deepEqual(await defined({ packages: [pypi] }), { command: 'uvx', args: ['weather-mcp@0.5.0'] });
  const oci = { registryType: 'oci', identifier: 'ghcr.io/example/server:1.2.3', transport: STDIO };
  assert.deepEqual(await defined({ packages: [oci] }), {
    command: 'docker',
    args: ['run', '-i', '--rm', 'ghcr.io/example/server:1.2.3'],
  });
  const old = { registryType: 'oci', identifier: 'localhost:5000/server', version: '1', runtimeHint: 'podman' };
  assert.deepEqual(await defined({ packages: [old] }), {
    command: 'podman',
    args: ['run', '-i', '--rm', 'localhost:5000/server:1'],
  });
  const nuget = { registryType: 'nuget', identifier: 'Example.Server', version: '2.0.0', transport: STDIO };
  assert.deepEqual(await defined({ packages: [nuget] }), {
    command: 'dnx',
    args: ['Example.Server@2.0.0', '--yes'],
  });
});

test('a runtime hint that does not fit the kind of package is ignored', async () => {
  const npm = { registryType: 'npm', identifier: 'x', version: '1.0.0', runtimeHint: 'curl', transport: STDIO };
  assert.deepEqual(await defined({ packages: [npm] }), { command: 'npx', args: ['-y', 'x@1.0.0'] });
});

test('arguments and variables: fixed, given, by default, repeated, flags, templates, and none', async () => {
  const one: Package = {
    registryType: 'oci',
    identifier: 'docker.io/mcp/filesystem:1.0.2',
    transport: STDIO,
    runtimeArguments: [
      {
        type: 'named',
        name: '--mount',
        value: 'type=bind,src={source_path},dst={target_path}',
        variables: { source_path: { isRequired: true }, target_path: { default: '/project' } },
      },
    ],
    packageArguments: [
      { type: 'positional', valueHint: 'target_dir', value: '/project' },
      { type: 'positional', valueHint: 'more', isRepeated: true },
      { type: 'named', name: '--port', default: '8080' },
      { type: 'named', name: '--verbose' },
      { type: 'named', name: '--quiet' },
      { type: 'named', name: '--absent', isRequired: false, default: undefined as never },
    ],
    environmentVariables: [{ name: 'LOG_LEVEL', default: 'info' }, { name: 'UNSET' }],
  };
  const values = { source_path: ['/data'], more: ['a', 'b'], verbose: ['true'], quiet: ['false'] };
  assert.deepEqual(await defined({ packages: [one] }, values), {
    command: 'docker',
    args: [
      ...['run', '-i', '--rm', '-e', 'LOG_LEVEL', '--mount', 'type=bind,src=/data,dst=/project'],
      ...['docker.io/mcp/filesystem:1.0.2', '/project', 'a', 'b', '--port', '8080', '--verbose'],
    ],
    env: { LOG_LEVEL: 'info' },
  });
});

test('a remote comes first, with the variables of its address and its headers', async () => {
  const remote: PackageTransport = {
    type: 'streamable-http',
    url: 'https://{tenant}.example.com/mcp/{unknown}',
    variables: { tenant: { isRequired: true } },
    headers: [
      { name: 'Authorization', value: 'Bearer {token}', variables: { token: { isRequired: true, isSecret: true } } },
      { name: 'X-Region', default: 'eu' },
      { name: 'X-Unset' },
    ],
  };
  const sse = { type: 'sse', url: 'https://example.com/sse' };
  const both = { remotes: [remote, sse], packages: [{ registryType: 'npm', identifier: 'x', version: '1.0.0' }] };
  const secret = '${secret:one-token}';
  assert.deepEqual(await defined(both, { tenant: ['acme'], token: [secret] }), {
    type: 'http',
    url: 'https://acme.example.com/mcp/{unknown}',
    headers: { Authorization: `Bearer ${secret}`, 'X-Region': 'eu' },
  });
  assert.deepEqual(
    waysOf(server(both)).map(({ via }) => via),
    ['remote', 'sse', 'npm'],
  );
});

test('text of the publisher is never a reference to a variable or secret of this machine', async () => {
  const packages: Package[] = [
    {
      registryType: 'npm',
      identifier: 'x',
      version: '1.0.0',
      packageArguments: [
        { type: 'positional', value: '${AWS_SECRET_ACCESS_KEY}' },
        { type: 'positional', value: '{d}{HOME}', variables: { d: { value: '$' } } },
        { type: 'named', name: '--${HOME}', value: 'x' },
      ],
      environmentVariables: [{ name: 'A', value: '${secret:github-token}' }],
    },
  ];
  assert.deepEqual(await defined({ packages }), {
    command: 'npx',
    args: ['-y', 'x@1.0.0', '$${AWS_SECRET_ACCESS_KEY}', '$${HOME}', '--$${HOME}', 'x'],
    env: { A: '$${secret:github-token}' },
  });
});

test('no way is offered for HTTP servers to be started, other kinds, unsafe names and other transports', () => {
  const packages = [
    {
      registryType: 'npm',
      identifier: 'x',
      version: '1.0.0',
      transport: { type: 'streamable-http', url: 'http://localhost:1' },
    },
    { registryType: 'npm', identifier: '--call=sh', version: '1.0.0', transport: STDIO },
    { registryType: 'npm', identifier: 'x', version: '1 --call=sh', transport: STDIO },
    { registryType: 'cargo', identifier: 'x', version: '1.0.0', transport: STDIO },
  ];
  assert.deepEqual(waysOf(server({ packages, remotes: [{ type: 'websocket', url: 'wss://example.com' }] })), []);
});

test('a named argument with a format takes a value, and a flag with true or false stays a flag', async () => {
  // The types have only the members that are read.
  const packageArguments: object[] = [
    { type: 'named', name: '--root', format: 'filepath' },
    { type: 'named', name: '--token', isSecret: true },
    { type: 'named', name: '--region', placeholder: 'eu' },
    { type: 'named', name: '--strict', format: 'boolean' },
    { type: 'named', name: '--lax', format: 'boolean' },
    { type: 'named', name: '--verbose' },
  ];
  const packages = [
    { registryType: 'npm', identifier: 'x', version: '1.0.0', transport: STDIO, packageArguments },
  ] as Package[];
  const asked: Record<string, readonly string[] | undefined> = {};
  const values: Record<string, string> = {
    root: '/data',
    token: 't',
    region: 'us',
    strict: 'true',
    lax: 'false',
    verbose: 'true',
  };
  const found = await definitionOf(waysOf(server({ packages }))[0]!, undefined, {
    async value(name, { choices }) {
      asked[name] = choices;
      return [values[name]!];
    },
  });
  assert.deepEqual(found, {
    command: 'npx',
    args: ['-y', 'x@1.0.0', '--root', '/data', '--token', 't', '--region', 'us', '--strict', '--verbose'],
  });
  assert.deepEqual([asked['root'], asked['verbose']], [undefined, ['true', 'false']]);
});
