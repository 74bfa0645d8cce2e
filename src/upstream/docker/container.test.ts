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
const CREATION = 'POST /containers/create';
/** The timeout of most requests where a test waits for it. */
const TIMEOUT_MS = 1_000;
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

/** A gateway process with one server in a container; `next` makes the transport of the next start. */
function gateway(engine: FakeDocker, run: string, target = SPEC.target, timeoutMs = 10_000) {
  const swept: number[] = [];
  const left: string[] = [];
  const logger = new RecordingLog();
  const host = new ContainerHost({
    owner: 'mine',
    run,
    environment: { DOCKER_HOST: `unix://${engine.socket}` },
    onOrphansRemoved: (count) => swept.push(count),
    onRemovalFailed: (id, reason) => left.push(`${id} ${reason}`),
    timeoutMs,
  });
  const next = (): DockerTransport =>
    new DockerTransport({
      server: 'fake',
      spec: { ...SPEC, target },
      maxMessageBytes: 1 << 20,
      host,
      logger,
      clock: systemClock,
      ladder: FAST_LADDER.reasons,
    });
  return { swept, left, logger, transport: next(), next };
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

test('S2.8 a container that a killed gateway left and the engine does not remove is reported, and servers start', async () => {
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

test('S2.8 S1.19 the error of a failed start whose container stays has both reasons and the remedy', async () => {
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

test('S2.8 fault:F31 an engine that hangs blocks no stop; the next start first removes the container that was left', {
  timeout: 20_000,
}, async () => {
  await using engine = await FakeDocker.start();
  const { transport, logger, swept, next } = gateway(engine, 'one', SPEC.target, TIMEOUT_MS);
  await transport.open(new RecordingReceiver());
  const [container] = await engine.containers();
  const hangs = (): Promise<never> => new Promise(() => {});
  for (const route of ['POST /containers/ID/stop', REMOVAL]) engine.holds.set(route, hangs);
  await transport.close('remove');
  const [logged] = logger.of('container_left');
  assert.match(String(logged?.['reason']), /no container engine answers/);
  while (engine.waits > 0) await setTimeout(5);
  assert.deepEqual(await engine.containers(), [container]);
  engine.holds.clear();
  const [another, beside] = [next(), next()];
  await another.open(new RecordingReceiver());
  await beside.open(new RecordingReceiver());
  const containers = await engine.containers();
  assert.deepEqual([swept, containers.length, containers.includes(container!)], [[1], 2, false]);
  for (const one of [another, beside]) await one.close('interrupt');
});

test('S2.8 a start waits for an engine that is slow to make its container; one made after a stop is removed later', {
  timeout: 20_000,
}, async () => {
  await using engine = await FakeDocker.start();
  const { transport, swept, next } = gateway(engine, 'one', SPEC.target, TIMEOUT_MS);
  engine.holds.set(CREATION, () => setTimeout(TIMEOUT_MS + 500));
  await transport.open(new RecordingReceiver());
  await transport.close('interrupt');
  const { promise: asked, resolve: come } = Promise.withResolvers<void>();
  const { promise: made, resolve: make } = Promise.withResolvers<void>();
  engine.holds.set(CREATION, () => {
    come();
    return made;
  });
  const stopped = next();
  const opened = assert.rejects(stopped.open(new RecordingReceiver()), { outcome: 'NOT_SENT' });
  await asked;
  await stopped.close('remove');
  await opened;
  make();
  while ((await engine.containers()).length === 0) await setTimeout(5);
  engine.holds.clear();
  const another = next();
  await another.open(new RecordingReceiver());
  assert.deepEqual([swept, (await engine.containers()).length], [[1], 1]);
  await another.close('interrupt');
});
