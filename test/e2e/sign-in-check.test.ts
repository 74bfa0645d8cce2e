import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { SignInCheck, SignInFinding } from '../../src/model/sign-in.ts';
import { StatefulServer } from '../fixtures/http/stateful.ts';
import { ProtectedServer } from '../fixtures/oauth/protected-server.ts';
import { freePort } from '../support/free-port.ts';
import type { Json } from '../support/raw-http.ts';
import { trunkline } from '../support/run-trunkline.ts';
import { RunningGateway } from '../support/running-gateway.ts';

describe('check of a sign-in at a server and its authorization server, step by step', { timeout: 120_000 }, () => {
  let server: ProtectedServer;
  let closed: ProtectedServer;
  let lost: ProtectedServer;
  let folder = '';
  let mcpServers: Record<string, object> = {};
  before(async () => {
    server = await ProtectedServer.start();
    closed = await ProtectedServer.start({ registers: false });
    lost = await ProtectedServer.start({ named: `http://127.0.0.1:${await freePort()}` });
    mcpServers = {
      web: { type: 'http', url: server.url },
      other: { type: 'http', url: server.url, auth: { issuer: closed.issuer } },
      closed: { type: 'http', url: closed.url },
      known: { type: 'http', url: closed.url, auth: { clientId: 'our-client' } },
      lost: { type: 'http', url: lost.url },
    };
    folder = mkdtempSync(join(tmpdir(), 'trunkline-sign-in-check-'));
    writeFileSync(join(folder, 'servers.json'), JSON.stringify({ mcpServers }));
  });
  after(async () => {
    for (const one of [server, closed, lost]) await one?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const ALL = ['challenge', 'resource metadata', 'issuer metadata', 'registration', 'authorization', 'token'];

  /** What is found for each server: the names of the good steps, and the step that fails. */
  function assertFound(name: string, steps: readonly SignInFinding[]): void {
    const failing: Record<string, [string, RegExp, RegExp]> = {
      other: ['resource metadata', /it names the authorization servers http.*, and not http/, /set auth\.issuer/],
      closed: ['registration', /registers no clients/, /set auth\.clientId/],
      lost: ['issuer metadata', /cannot be reached \(ECONNREFUSED\)/, /RFC 8414/],
    };
    const [fails, words, fix] = failing[name] ?? [null];
    const passed = fails === null ? ALL : ALL.slice(0, ALL.indexOf(fails));
    const found = steps.map(({ step, state }) => (state === 'ok' ? step : `${step} ${state}`));
    assert.deepEqual(found, fails === null ? passed : [...passed, `${fails} failed`], JSON.stringify(steps));
    const last = steps.at(-1)!;
    if (words !== undefined) assert.match(last.text, words);
    if (fix !== undefined) assert.match(last.fix ?? '', fix);
    const sent = steps.flatMap(({ requests }) => requests.map(({ method, status }) => `${method} ${status}`));
    const documents = ['POST 401', 'GET 200'];
    if (name !== 'other') documents.push(name === 'lost' ? 'GET null' : 'GET 200');
    assert.deepEqual(sent, documents, 'no client was registered');
  }

  test('the control API finds the same, and leaves the steps of the last sign-in alone', async (t) => {
    const stdio = { command: 'cat' };
    const gateway = await RunningGateway.start({ config: { mcpServers: { ...mcpServers, stdio } } });
    t.after(() => gateway.dispose());
    const login = (name: string) => `/api/v1/servers/${name}/login`;
    for (const name of Object.keys(mcpServers)) {
      const found = await gateway.control<SignInCheck>(`${login(name)}/check`, 'POST');
      assert.deepEqual([found.server, found.ok], [name, name === 'web' || name === 'known']);
      assertFound(name, found.steps);
      assert.deepEqual((await gateway.control<Json>(login(name))).steps, []);
    }
    await assert.rejects(
      gateway.control(`${login('stdio')}/check`, 'POST'),
      /409 .*login_not_possible.*not behind a URL/,
    );
  });

  test('servers that are away, need no login, need no user, or publish a text instead of a list', async (t) => {
    const open = await StatefulServer.start({ listen: 405 });
    const odd = createServer(({ url }, response) => {
      const document = {
        resource: `http://127.0.0.1:${portOf(odd)}/mcp`,
        authorization_servers: 'a',
        scopes_supported: 'b',
      };
      if (url === '/mcp') response.writeHead(401).end();
      else response.end(JSON.stringify(document));
    }).listen(0, '127.0.0.1');
    await once(odd, 'listening');
    const auth = { grant: 'client_credentials', clientId: 'our-client', clientSecret: 's' };
    const gateway = await RunningGateway.start({
      config: {
        mcpServers: {
          open: { type: 'http', url: open.url },
          away: { type: 'http', url: `http://127.0.0.1:${await freePort()}/mcp` },
          machine: { type: 'http', url: closed.url, auth },
          odd: { type: 'http', url: `http://127.0.0.1:${portOf(odd)}/mcp` },
        },
      },
    });
    t.after(async () => {
      await gateway.dispose();
      await open.stop();
      odd.close();
    });
    const check = async (name: string) =>
      (await gateway.control<SignInCheck>(`/api/v1/servers/${name}/login/check`, 'POST')).steps;
    const said = (steps: readonly SignInFinding[]) => steps.map(({ step, state, text }) => `${step} ${state} ${text}`);
    const [asked, nothing, ...none] = said(await check('open'));
    assert.match(asked!, /^challenge ok HTTP \d+ without a token: it asks for no credentials here$/);
    assert.match(nothing!, /^resource metadata ok .*there is nothing to sign in to$/);
    assert.deepEqual(none, []);
    const [away, ...rest] = await check('away');
    assert.deepEqual([away?.step, away?.state, rest], ['challenge', 'failed', []]);
    assert.match(away!.text, /cannot be reached \(ECONNREFUSED\)/);
    assert.match(away!.fix!, /start the server/);
    const machine = await check('machine');
    assert.deepEqual(
      machine.map(({ step }) => step),
      ALL.filter((step) => step !== 'authorization'),
    );
    assert.match(machine.at(-1)!.text, /\/token for tools.*, grant client_credentials$/);
    assert.match(
      said(await check('odd')).join('\n'),
      /\nresource metadata failed its metadata names no authorization server$/,
    );
  });

  test('goal:G18 trunkline doctor says at which step a sign-in would fail, and what to do', async () => {
    const words = ['doctor', 'servers.json', '--data-dir', join(folder, 'data'), '--port', '0', '--control-port', '0'];
    const { code, out, err } = await trunkline([...words, '--json'], { cwd: folder });
    assert.equal(code, 4, err);
    const { servers } = JSON.parse(out) as { servers: { name: string; steps: SignInFinding[] }[] };
    assert.deepEqual(
      servers.map(({ name }) => name),
      Object.keys(mcpServers),
    );
    for (const { name, steps } of servers) {
      const signIn = steps.filter(({ step }) => ALL.includes(step));
      assertFound(name, signIn);
      const rest = steps.slice(steps.indexOf(signIn.at(-1)!) + 1).map(({ step, fix }) => `${step}: ${fix}`);
      if (signIn.at(-1)!.state === 'failed') assert.deepEqual(rest, []);
      else assert.match(rest.join('\n'), new RegExp(`^login: .*trunkline login ${name}$`));
    }
    const [web, , , known] = servers;
    const text = (of: typeof web, step: string) => of!.steps.find((one) => one.step === step)!.text;
    assert.match(text(web, 'challenge'), /^HTTP 401: metadata http.*, scope tools$/);
    assert.match(text(web, 'registration'), /^a sign-in registers at http.*\/reg$/);
    assert.match(text(web, 'authorization'), /\/auth for tools offline_access, with PKCE, or a code is typed in$/);
    assert.match(text(known, 'registration'), /names the client our-client/);
    const shown = await trunkline([...words, 'closed'], { cwd: folder });
    assert.match(shown.out, /FAIL.* registration +its authorization server .*\n.*fix:.* register a client there/);
  });
});

function portOf(server: Server): number {
  return (server.address() as AddressInfo).port;
}
