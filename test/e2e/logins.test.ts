import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { createGateway } from '../../src/index.ts';
import { manySided } from '../support/many-sided.ts';
import type { Json } from '../support/raw-http.ts';
import { trunkline } from '../support/run-trunkline.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';

const ADVICE = /sign in: trunkline login web/;
const CHALLENGE = 'Bearer resource_metadata="https://auth.example/.well-known/oauth-protected-resource"';

describe('a server that requires a login', () => {
  let server: Server;
  let gateway: RunningGateway;
  let url = '';
  before(async () => {
    server = createServer((request, response) => {
      request.resume();
      response.writeHead(401, { 'www-authenticate': CHALLENGE }).end('{"error":"invalid_token"}');
    });
    await new Promise<void>((open) => server.listen(0, '127.0.0.1', open));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
    gateway = await RunningGateway.start({ config: { mcpServers: { web: { url }, good: manySided('good') } } });
    await gateway.ready('good');
  });
  after(async () => {
    await gateway.dispose();
    server.close();
  });

  for (const era of ['stateful', 'stateless'] as const) {
    test(`S3.5 check:I1 ${era}: on both endpoints only the login is listed, and every request ends in 53006, REFUSED, not retryable`, async () => {
      const single = new WireClient(gateway.serverUrl('web'), era);
      const params = { name: 'x', arguments: {} };
      if (era === 'stateful') await single.initialize();
      assert.deepEqual(await single.toolNames(), ['trunkline_login']);
      const answers = [
        await single.request('prompts/list'),
        await single.request('resources/list'),
        await single.request('tools/call', params),
        await single.request('tools/call', { ...params, name: 'trunkline_login' }),
      ];
      for (const { message } of answers) refused(message);
      const whole = new WireClient(gateway.mcpUrl, era);
      if (era === 'stateful') await whole.initialize();
      refused((await whole.request('tools/call', { ...params, name: 'web__x' })).message);
      const names = await whole.toolNames();
      assert.ok(names.includes('good__echo') && names.includes('web__trunkline_login'), names.join());
    });
  }

  test('the status, its page and the API show the remedy', async () => {
    const { servers } = await gateway.control<{ servers: Json[] }>('/api/v1/servers');
    const { state, reason: error, lastLaunchFailure } = servers.find(({ name }) => name === 'web');
    assert.equal(state, 'auth_required');
    assert.match(error, ADVICE);
    assert.match(lastLaunchFailure.likelyCause, ADVICE);
    const flags = ['--data-dir', join(gateway.folder, 'data')];
    const { out } = await trunkline(['status', ...flags], { cwd: gateway.folder });
    assert.match(out, /^ +web +login +.*trunkline login web/m);
    const page = await trunkline(['status', 'web', ...flags], { cwd: gateway.folder });
    assert.match(page.out, ADVICE);
    assert.doesNotMatch(out + page.out, /resource_metadata|remove/);
  });

  test('a program that embeds the gateway gets the same error and advice', async () => {
    await using embedded = await createGateway({ servers: { web: { url } } });
    await assert.rejects(embedded.callTool({ server: 'web', tool: 'x' }), {
      code: 'AUTH_REQUIRED',
      outcome: 'REFUSED',
    });
    assert.match(embedded.server('web')?.reason ?? '', ADVICE);
  });

  test('login keys of clients are accepted in their files and in trunkline.json', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'trunkline-logins-'));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const mcpServers = { web: { url, oauth: { clientId: 'x' } }, more: { url, auth: { CLIENT_ID: 'x' } } };
    for (const name of ['.mcp.json', 'trunkline.json'])
      writeFileSync(join(folder, name), JSON.stringify({ mcpServers }));
    for (const name of ['.mcp.json', 'trunkline.json']) {
      const { code, err } = await trunkline(['check', name], { cwd: folder });
      assert.deepEqual([code, err.match(/TL\d+/g)], [0, null], err);
    }
  });
});

function refused(message: Json): void {
  // A failed tool call is a result that the model can read; everything else is an error.
  const failed = message.error?.data ?? message.result?._meta['trunkline/error'];
  assert.ok(failed !== undefined, JSON.stringify(message));
  if (message.error !== undefined) assert.equal(message.error.code, 53006, JSON.stringify(message));
  else assert.equal(failed.code, 'AUTH_REQUIRED');
  assert.deepEqual([failed.outcome, failed.sent, failed.retryable], ['REFUSED', false, false], JSON.stringify(message));
}
