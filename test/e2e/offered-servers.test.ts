import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { manySided } from '../support/many-sided.ts';
import type { Json, Reply } from '../support/raw-http.ts';
import { RunTimeClient } from '../support/run-time-client.ts';
import { RunningGateway } from '../support/running-gateway.ts';

const KEY = 'key-of-the-offer-1';

describe('definitions read from pasted files and commands', () => {
  let gateway: RunningGateway;
  let client: RunTimeClient;
  before(async () => {
    gateway = await RunningGateway.start({ config: { mcpServers: { base: manySided('base', { API_KEY: KEY }) } } });
    await gateway.ready();
    client = new RunTimeClient(gateway);
  });
  after(() => gateway.dispose());

  const read = (offer: object): Promise<Reply> => client.ask('POST', '/api/v1/definitions', offer);

  test('a client’s file becomes definitions that can be added as they are; none is added, and existing ones are marked', async () => {
    const mcpServers = { base: manySided('base', { API_KEY: KEY }), extra: manySided('extra', { API_KEY: KEY }) };
    const document = `// mine\n${JSON.stringify({ mcpServers })}`;
    const first = await read({ document });
    assert.equal(first.status, 200, first.text);
    const told = ({ json }: Reply) => json.servers.map(({ name, there }: Json) => `${name} ${there}`);
    assert.deepEqual(told(first), ['base true', 'extra false']);
    assert.deepEqual(await client.names(), ['base']);
    // The log masks the key of `base`; a masked key in the definition would be stored so.
    const { definition, secrets } = first.json.servers[1];
    assert.equal(definition.env.API_KEY, '${secret:extra-api_key}');
    assert.deepEqual(secrets, { 'extra-api_key': KEY });
    assert.equal((await client.ask('PUT', '/api/v1/secrets/extra-api_key', { value: KEY })).status, 200);
    const added = await client.ask('POST', '/api/v1/servers', definition);
    assert.equal(added.status, 201, added.text);
    assert.deepEqual(told(await read({ document })), ['base true', 'extra true']);
    const other = await read({ document: JSON.stringify({ base: { command: 'x' }, extra: { command: 'x' } }) });
    const taken = other.json.servers.map((server: Json) => server.taken);
    assert.match(taken[0], /^the server base exists already in .*trunkline\.json:\d+: choose another name$/);
    assert.match(taken[1], /^the server extra exists already: remove it first/);
    await client.remove('extra');
  });

  test('an invalid text is refused with the positions of its problems, and none of its servers is added', async () => {
    const { status, json } = await read({
      document: '{ "mcpServers": {\n  "good": { "command": "x" },\n  "bad": "node y" } }',
    });
    assert.equal(status, 422);
    const [{ code, line, column, frame }] = json.error.problems;
    assert.deepEqual([code, line, column], ['TL1302', 3, 10]);
    assert.match(frame, /"bad": "node y" } }\n.*\^{8}/);
    assert.deepEqual(await client.names(), ['base']);
    for (const body of [{}, { command: 7 }, { document: null }]) assert.equal((await read(body)).status, 400);
  });

  test('without the exec token, only definitions that may be added without it are read', async () => {
    const plain = new RunTimeClient(gateway, false);
    const ask = (offer: object) => plain.ask('POST', '/api/v1/definitions', offer);
    assert.equal((await ask({ command: 'https://tickets.example/mcp' })).status, 200);
    // A client that may not store secrets gets the value in the definition.
    const headers = { Authorization: 'Bearer abc-def-1' };
    const { json: kept } = await ask({ document: JSON.stringify({ a: { url: 'https://a.example/mcp', headers } }) });
    assert.deepEqual([kept.servers[0].definition.headers, kept.servers[0].secrets], [headers, {}]);
    for (const offer of [
      { command: 'node x', name: 'one' },
      { document: '{ "one": { "url": "https://tickets.example/mcp", "headers": { "x": "${HOME}" } } }' },
      {
        document:
          '{ "one": { "transport": { "url": "https://tickets.example/mcp", "bearer_token_env_var": "HOME" } } }',
      },
    ]) {
      const { status, json } = await ask(offer);
      assert.equal(status, 403);
      assert.match(json.error.message, /^one (?:runs|reads) .*servers:exec/);
    }
  });

  test('a server that was added without the exec token exists for a client that has it', async () => {
    const plain = new RunTimeClient(gateway, false);
    assert.equal((await plain.add('tickets', { url: 'https://tickets.example/mcp' })).status, 201);
    const { json } = await read({ command: 'https://tickets.example/mcp', name: 'tickets' });
    assert.deepEqual([json.servers[0].there, json.servers[0].taken], [true, null]);
    await client.remove('tickets');
  });
});
