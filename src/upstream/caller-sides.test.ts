import assert from 'node:assert/strict';
import { test } from 'node:test';
import { agent } from '../../test/support/gateway-bench.ts';
import { ScriptedServer, scriptedTool, statelessServer } from '../../test/support/scripted-server.ts';
import { answerText, clientOf, httpServerOf, toolCall, UpstreamBench } from '../../test/support/upstream-bench.ts';
import type { Principal } from '../model/client-profile.ts';

/** More than a server has sides. */
const VALUES = 1_100;

test('goal:G18 a caller with ever new header values is served, and displaces no side of another caller', async () => {
  const bench = new UpstreamBench();
  const script = new ScriptedServer(statelessServer([scriptedTool('echo')]));
  const server = httpServerOf('web', { apart: { credentials: false, headers: { 'x-team': 'X-Tenant' } } });
  await bench.run([server, script]);
  const call = (principal: Principal, team: string) =>
    bench.call('web', toolCall(clientOf(null, '{}', { principal, forwarded: { 'x-team': team } })));
  const [ada, bob] = [agent('ada', 'web'), agent('bob', 'web')];
  answerText(await call(bob, 'bob'));
  const opened = () => script.links.length;
  const first = opened();
  for (let i = 0; i < VALUES; i++) answerText(await call(ada, `team-${i}`));
  assert.equal(opened(), first + VALUES);
  answerText(await call(bob, 'bob'));
  assert.equal(opened(), first + VALUES, 'the side of the other caller has lived on');
  answerText(await call(ada, 'team-0'));
  assert.equal(opened(), first + VALUES + 1, 'the oldest of the caller itself was ended');
});
