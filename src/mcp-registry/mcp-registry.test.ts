import assert from 'node:assert/strict';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { McpRegistry } from './mcp-registry.ts';
import { definitionOf, viasOf, waysOf } from './server-json.ts';

/** Starts a registry that answers with `answer`, and returns its address. */
async function registry(t: TestContext, answer: (response: ServerResponse, path: string) => void): Promise<string> {
  const server = createServer((request, response) => {
    response.setHeader('content-type', 'application/json');
    answer(response, request.url!);
  });
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  await new Promise<void>((open) => server.listen(0, '127.0.0.1', open));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test('a registry whose answer breaks off counts as unreachable, and the error says what to do', async (t) => {
  const base = await registry(t, (response) => response.write('{"servers":[', () => response.destroy()));
  await assert.rejects(new McpRegistry(base, {}).search('x'), {
    fault: 'unreachable',
    message: /^the registry http:\S+ does not answer \(.+\); name another one with --registry/,
  });
});

test('an answer of more than 10 MiB is refused, and its rest is not read', async (t) => {
  let sent = 0;
  const base = await registry(t, (response) => {
    const more = (): void => {
      while (!response.destroyed && response.write(Buffer.alloc(64 * 1024, ' '))) sent += 64 * 1024;
    };
    response.on('drain', more);
    more();
  });
  await assert.rejects(new McpRegistry(base, {}).search('x'), {
    fault: 'unreachable',
    message: /answers with more than 10 MiB/,
  });
  assert.ok(sent < 64 * 1024 * 1024, `${sent} bytes`);
});

test('the error for a server without a latest version does not name a version null', async (t) => {
  const servers = [{ name: 'com.example/x', version: '1.0.0' }];
  const base = await registry(t, (response, path) => {
    if (path.includes('/versions/')) response.writeHead(404);
    response.end(JSON.stringify({ servers }));
  });
  const found = (wanted: string) => new McpRegistry(base, {}).runnable(wanted, undefined);
  await assert.rejects(found('com.example/x'), { message: `com.example/x has no latest version in ${base}` });
  await assert.rejects(found('com.example/x@2'), { message: `com.example/x has no version 2 in ${base}` });
});

test('a short name is refused when the registry has more pages, since another server may have it too', async (t) => {
  const servers = [
    { name: 'com.example/files', version: '1.0.0', remotes: [{ type: 'sse', url: 'https://x.example/' }] },
  ];
  let metadata: object | null = { nextCursor: 'com.example/files:1.0.0', count: 1 };
  const base = await registry(t, (response, path) => {
    response.end(JSON.stringify(path.includes('/versions/') ? { server: servers[0] } : { servers, metadata }));
  });
  const find = (name: string) => new McpRegistry(base, {}).runnable(name, undefined);
  await assert.rejects(find('files'), {
    fault: 'unknown',
    message: `${base} has too many servers that match "files": write the whole name`,
  });
  await find('com.example/files');
  for (const last of [null, {}, { nextCursor: null }, { nextCursor: '' }]) {
    metadata = last;
    await find('files');
  }
});

test('an entry with null instead of a list or text hides no other, and a package without identifier does not run', async (t) => {
  const servers = [
    { name: 'com.example/empty', version: '1.0.0', description: null, packages: null, remotes: null },
    { name: 'com.example/odd', version: '1.0.0', packages: 'x', remotes: [null] },
    { name: 'com.example/nameless', version: '1.0.0', packages: [{ registryType: 'npm' }] },
    { name: 'com.example/good', version: '1.0.0', packages: [{ registryType: 'npm', identifier: 'a', version: null }] },
  ];
  const base = await registry(t, (response, path) => {
    const one = servers.find(({ name }) => path.includes(`/${encodeURIComponent(name)}/`));
    response.end(JSON.stringify(one === undefined ? { servers } : { server: one }));
  });
  const found = await new McpRegistry(base, {}).search('');
  assert.deepEqual(
    found.map(({ server }) => [server.name.slice(12), server.description, viasOf(waysOf(server))]),
    [
      ['empty', undefined, []],
      ['odd', undefined, []],
      ['nameless', undefined, []],
      ['good', undefined, ['npm']],
    ],
  );
  const runnable = (name: string) => new McpRegistry(base, {}).runnable(`com.example/${name}`, undefined);
  await assert.rejects(runnable('empty'), { fault: 'invalid', message: /neither a package nor an address/ });
  await assert.rejects(runnable('nameless'), { fault: 'invalid', message: /it has no identifier/ });
  const { way } = await runnable('good');
  const given = { value: async () => null };
  assert.deepEqual(await definitionOf(way, undefined, given), { command: 'npx', args: ['-y', 'a'] });
});
