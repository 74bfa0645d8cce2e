import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { systemClock } from '../model/clock.ts';
import { SignInTrace } from './sign-in-trace.ts';

test('the trace keeps a token answer without any secret of it or of its request', async (t) => {
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    const code = new URLSearchParams(body).get('code');
    const answer = {
      access_token: 'access-1',
      id_token: 'id-1',
      more: 'm-1',
      token_type: 'Bearer',
      scope: `a ${code}`,
    };
    response.end(JSON.stringify(answer));
  });
  await new Promise<void>((open) => server.listen(0, '127.0.0.1', open));
  t.after(() => server.close());
  const trace = new SignInTrace(systemClock);
  for (const path of ['/token', '/.well-known/token', '/.well-known/oauth-protected-resource/token']) {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}?state=state-1`;
    const body = new URLSearchParams({ grant_type: 'authorization_code', code: 'code-1', code_verifier: 'verifier-1' });
    const response = await trace.through('web', (target, init) => fetch(target, init))(url, { method: 'POST', body });
    assert.equal(((await response.json()) as Record<string, string>)['access_token'], 'access-1');
    const [step] = trace.of('web');
    assert.deepEqual([step?.step, step?.status, step?.problem], ['token', 200, null]);
    assert.deepEqual(step?.answer, {
      access_token: '[redacted]',
      id_token: '[redacted]',
      more: '[redacted]',
      token_type: 'Bearer',
      scope: 'a [redacted]',
    });
    assert.doesNotMatch(JSON.stringify(trace.of('web')), /(?:access|id|code|verifier|state|m)-1/);
    trace.begin('web');
    assert.deepEqual(trace.of('web'), []);
  }
});
