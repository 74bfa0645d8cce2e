import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { RecordingReceiver } from '../../../test/contracts/recording-receiver.ts';
import { asSecrets } from '../../../test/support/as-secrets.ts';
import { IMAGE } from '../../../test/support/docker-engine.ts';
import { FakeDocker } from '../../../test/support/fake-docker.ts';
import { FAST_LADDER, RecordingLog } from '../../../test/support/stdio-bench.ts';
import { systemClock } from '../../model/clock.ts';
import type { DockerSpec } from '../../model/server.ts';
import { DockerTransport } from '../transport/docker-transport.ts';
import { ContainerHost } from './container.ts';

const REMOVAL = 'DELETE /containers/ID';
const SPEC: DockerSpec = {
  type: 'docker',
  target: {
    image: {
      name: IMAGE,
      command: ['node', '-e', 'setInterval(() => {}, 1000)'],
      entrypoint: null,
      cwd: null,
      user: null,
      network: 'none',
      volumes: [],
      readOnly: true,
      labels: {},
      limits: { memoryBytes: null, cpus: null, pids: null },
    },
  },
  env: asSecrets({}),
  engine: null,
};

/** A gateway process with one server in a container. */
function gateway(engine: FakeDocker, run: string, target = SPEC.target) {
  const swept: number[] = [];
  const left: string[] = [];
  const logger = new RecordingLog();
  const host = new ContainerHost({
    owner: 'mine',
    run,
    environment: { DOCKER_HOST: `unix://${engine.socket}` },
    onOrphansRemoved: (count) => swept.push(count),
    onRemovalFailed: (id, reason) => left.push(`${id} ${reason}`),
  });
  const transport = new DockerTransport({
    server: 'fake',
    spec: { ...SPEC, target },
    maxMessageBytes: 1 << 20,
    host,
    logger,
    clock: systemClock,
    ladder: FAST_LADDER.reasons,
  });
  return { swept, left, logger, transport };
}

test('S2.8 a container that the engine does not remove is logged; one that is gone or being removed is not', async () => {
  await using engine = await FakeDocker.start();
  for (const [status, reasons] of [
    [500, ['refused by the test']],
    [404, []],
    [409, []],
  ] as const) {
    const { transport, logger } = gateway(engine, 'one');
    await transport.open(new RecordingReceiver());
    engine.refuses.set(REMOVAL, status);
    await transport.close('remove');
    engine.refuses.clear();
    const logged = logger.of('container_left').map(({ reason }) => reason);
    assert.deepEqual(logged, reasons, `${status}`);
  }
});

test('S2.8 an engine that fails to stop a container is asked to remove it', async () => {
  await using engine = await FakeDocker.start();
  const { transport, logger } = gateway(engine, 'one');
  await transport.open(new RecordingReceiver());
  engine.refuses.set('POST /containers/ID/stop', 500);
  await transport.close('remove');
  assert.deepEqual([await engine.containers(), logger.of('container_left')], [[], []]);
});

test('S2.8 what a killed gateway left and the engine does not remove is reported as left, and servers start', async () => {
  await using engine = await FakeDocker.start();
  const killed = gateway(engine, 'killed');
  await killed.transport.open(new RecordingReceiver());
  const [id] = await engine.containers();
  engine.refuses.set(REMOVAL, 500);
  const next = gateway(engine, 'next');
  await next.transport.open(new RecordingReceiver());
  engine.refuses.clear();
  assert.deepEqual([next.swept, next.left], [[], [`${id} refused by the test`]]);
  await Promise.all([killed, next].map(({ transport }) => transport.close('interrupt')));
});

test('S2.8 S1.19 a failed start whose container stays says both, and what to do', async () => {
  await using engine = await FakeDocker.start();
  engine.refuses.set('POST /containers/ID/start', 500).set(REMOVAL, 500);
  const { transport } = gateway(engine, 'one');
  const words =
    /refused by the test; its container was not removed \(refused by the test\); run "docker rm -f [0-9a-f]{12}"/;
  await assert.rejects(transport.open(new RecordingReceiver()), words);
});

test('S2.8 a gateway that leaves an attached container ends its request for the exit of that container', {
  timeout: 10_000,
}, async () => {
  await using engine = await FakeDocker.start();
  const owner = gateway(engine, 'one').transport;
  await owner.open(new RecordingReceiver());
  const [container] = await engine.containers();
  const { transport } = gateway(engine, 'one', { container: container! });
  await transport.open(new RecordingReceiver());
  while (engine.waits < 2) await setTimeout(5);
  await transport.close('remove');
  while (engine.waits > 1) await setTimeout(5);
  assert.deepEqual(await engine.containers(), [container]);
  await owner.close('interrupt');
});
