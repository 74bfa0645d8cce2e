import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { followed } from '../../../test/support/followed-events.ts';
import { FOUR_SERVERS } from '../../../test/support/four-servers.ts';
import { inServerContext } from '../../upstream/error-boundary.ts';
import { createGateway } from './open-gateway.ts';

const CHALLENGE = 'Bearer realm="x", resource_metadata="https://a.example/.well-known/x", scope="read"';
const PARSED = { resourceMetadata: 'https://a.example/.well-known/x', scope: 'read', issuer: null };

const LIMIT = { timeout: 30_000 };

test(
  'S3.5 S3.7 the hook gets definition and challenge before auth_required is reported; events and status have the challenge',
  LIMIT,
  async () => {
    const locked = createServer((_request, response) => {
      response.writeHead(401, { 'www-authenticate': CHALLENGE }).end();
    });
    locked.listen(0, '127.0.0.1');
    await once(locked, 'listening');
    try {
      const reported: unknown[] = [];
      let inHook: boolean | null = null;
      await using gateway = await createGateway({
        beforeAuthRequired: ({ name, state, endpoint: url, description }, challenge) => {
          reported.push(['hook', name, state, url, description, challenge]);
          setTimeout(() => {
            inHook = inServerContext();
          }, 0);
          throw new Error('the hook of the program fails');
        },
      });
      gateway.on('serverChanged', (name, status) => {
        if (status?.state === 'auth_required') reported.push(['event', name, status.authChallenge]);
      });
      const { controlUrl, controlToken } = await gateway.listen({ port: 0, controlPort: 0 });
      const events = await followed(controlUrl, controlToken);
      const url = `http://127.0.0.1:${(locked.address() as AddressInfo).port}/mcp`;
      const status = await gateway.registerServer('locked', { url, description: 'mine' });
      assert.deepEqual(reported, [
        ['hook', 'locked', 'starting', url, 'mine', PARSED],
        ['event', 'locked', PARSED],
      ]);
      assert.deepEqual([status.state, status.health, status.consecutiveFailures], ['auth_required', 'unknown', 0]);
      assert.deepEqual([status.authChallenge, status.history.at(-1)?.challenge], [PARSED, PARSED]);
      const found = (await events(({ to }) => to === 'auth_required')).find(({ to }) => to === 'auth_required');
      assert.deepEqual(found?.['challenge'], PARSED);
      assert.equal(inHook, false, 'a timer that the hook starts runs outside the context of the server');
    } finally {
      locked.close();
    }
  },
);

test(
  'S3.10 check:F8 a restart reports its start and its end, to the program and in the event stream',
  LIMIT,
  async () => {
    await using gateway = await createGateway({ servers: { memory: FOUR_SERVERS.mcpServers.memory } });
    await gateway.ready();
    const { controlUrl, controlToken } = await gateway.listen({ port: 0, controlPort: 0 });
    const events = await followed(controlUrl, controlToken);
    const reported: unknown[] = [];
    gateway.on('recovery', (...step) => reported.push(step));
    await gateway.restart('memory');
    await pause(0);
    assert.deepEqual(reported, [
      ['memory', 'started', null],
      ['memory', 'succeeded', null],
    ]);
    const steps = (await events(({ step }) => step === 'succeeded'))
      .filter(({ type }) => type === 'recovery')
      .map(({ server, step }) => [server, step]);
    assert.deepEqual(steps, [
      ['memory', 'started'],
      ['memory', 'succeeded'],
    ]);
  },
);
