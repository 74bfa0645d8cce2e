import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { RecordingReceiver } from '../../../test/contracts/recording-receiver.ts';
import { transportContract } from '../../../test/contracts/transport.contract.ts';
import { asSecrets } from '../../../test/support/as-secrets.ts';
import { DockerEngine, IMAGE, noEngine, type TestEngine } from '../../../test/support/docker-engine.ts';
import { FakeDocker } from '../../../test/support/fake-docker.ts';
import { relayBench } from '../../../test/support/relay-bench.ts';
import { FAST_LADDER, fixture, RecordingLog } from '../../../test/support/stdio-bench.ts';
import { systemClock } from '../../model/clock.ts';
import type { DockerSpec, ImageSpec } from '../../model/server.ts';
import { ContainerHost } from '../docker/container.ts';
import type { LadderTimes } from '../process/stop-ladder.ts';
import { DockerTransport } from './docker-transport.ts';

const ROOT = resolve(import.meta.dirname, '../../..');
const NOTIFICATION = '{"jsonrpc":"2.0","method":"notifications/message"}';

/** The fake engine runs everywhere; where dockerd is installed, the same tests show that it is no more lenient than Docker. */
const ENGINES: readonly { name: string; skip: string | false; start: () => Promise<TestEngine> }[] = [
  { name: 'fake', skip: false, start: () => FakeDocker.start() },
  { name: 'real', skip: noEngine() ?? false, start: () => DockerEngine.start() },
];

for (const { name, skip, start } of ENGINES)
  describe(`with a ${name} engine`, { skip }, () => {
    let engine: TestEngine;
    let folder = '';
    let sockets = 0;
    let transports: DockerTransport[] = [];
    before(async () => {
      engine = await start();
      folder = mkdtempSync(join(tmpdir(), 'trunkline-relay-'));
    });
    after(async () => {
      await engine[Symbol.asyncDispose]();
      rmSync(folder, { recursive: true, force: true });
    });

    afterEach(async () => {
      await Promise.all(transports.map((transport) => transport.close('interrupt')));
      transports = [];
    });

    function host(owner = 'test', run = 'one', onOrphansRemoved: (count: number) => void = () => {}): ContainerHost {
      const environment = { DOCKER_HOST: `unix://${engine.socket}` };
      return new ContainerHost({
        owner,
        run,
        environment,
        onOrphansRemoved,
        onRemovalFailed: (id) => assert.fail(`${id} is left`),
      });
    }

    function image(command: readonly string[], change: Partial<ImageSpec> = {}): ImageSpec {
      return {
        name: IMAGE,
        command,
        entrypoint: null,
        cwd: null,
        user: null,
        network: 'none',
        volumes: [`${ROOT}:${ROOT}:ro`, `${folder}:${folder}`],
        readOnly: true,
        labels: {},
        limits: { memoryBytes: 256 * 1024 * 1024, cpus: null, pids: 64 },
        ...change,
      };
    }

    function made(
      target: DockerSpec['target'],
      containers = host(),
      env: Record<string, string> = {},
      ladder: LadderTimes['reasons'] = FAST_LADDER.reasons,
    ): DockerTransport {
      const transport = new DockerTransport({
        server: 'fake',
        spec: { type: 'docker', target, env: asSecrets(env), engine: null },
        maxMessageBytes: 16 * 1024 * 1024,
        host: containers,
        logger: new RecordingLog(),
        clock: systemClock,
        ladder,
      });
      transports.push(transport);
      return transport;
    }

    async function opened(transport: DockerTransport, messages = 1): Promise<RecordingReceiver> {
      const receiver = new RecordingReceiver();
      await transport.open(receiver);
      await receiver.until(() => receiver.messages.length === messages);
      return receiver;
    }

    transportContract({
      name: 'docker',
      pushes: true,
      emits: true,
      endsWithServer: true,
      start: (receiver) => {
        const path = join(folder, `${++sockets}.sock`);
        return relayBench(receiver, (at) => made({ image: image(['node', fixture('relay.mjs'), at]) }), path);
      },
    });

    test('S2.8 check:B2 an image runs with its arguments, environment, folder and limits, and is removed with its server', async () => {
      const script = `printf '%s|%s|%s|' "$1" "$ODD" "$PWD" >&2; printf '${NOTIFICATION}\\n'; exec node -e 'setInterval(() => {}, 1000)'`;
      const odd = ` a'b"c $HOME \n%s é`;
      const target = { image: image(['sh', '-c', script, 'sh', odd], { cwd: '/tmp', labels: { mine: 'yes' } }) };
      const transport = made(target, host(), { ODD: odd });
      await opened(transport);
      const [id] = await engine.containers();
      const { Config, HostConfig } = (await engine.call('GET', `/containers/${id}/json`)) as {
        Config: { Labels: Record<string, string> };
        HostConfig: Record<string, unknown>;
      };
      assert.deepEqual(Config.Labels, {
        mine: 'yes',
        'trunkline.server': 'fake',
        'trunkline.owner': 'test',
        'trunkline.run': 'one',
      });
      const { AutoRemove, Init, Memory, PidsLimit, ReadonlyRootfs } = HostConfig;
      assert.deepEqual(
        [AutoRemove, Init, Memory, PidsLimit, ReadonlyRootfs],
        [true, true, 256 * 1024 * 1024, 64, true],
      );
      assert.ok(transport.stderrTail().includes(`${odd}|${odd}|/tmp|`), transport.stderrTail());
      await transport.close('remove');
      assert.deepEqual(await engine.containers(), []);
    });

    test('S2.8 fault:F15 a container that ignores every signal does not survive the removal of its server', async () => {
      const script = `trap '' TERM HUP INT; printf '${NOTIFICATION}\\n'; while :; do node -e 'setTimeout(() => {}, 60000)'; done`;
      const transport = made({ image: image(['sh', '-c', script]) });
      await opened(transport);
      await transport.close('remove');
      assert.deepEqual(await engine.containers(), []);
    });

    test('S2.8 fault:F31 a container that is ending anyway stops at once when it must not run beside another', async () => {
      for (const [phase, closeMs] of [600_000, 0].entries()) {
        const reported = join(folder, `told-to-end-${phase}`);
        const script = `process.on('SIGTERM', () => require('fs').writeFileSync('${reported}', '')); console.log('${NOTIFICATION}'); setInterval(() => {}, 1000)`;
        const patient = { ...FAST_LADDER.reasons, remove: { closeMs, terminateMs: 600_000 } };
        const transport = made({ image: image(['node', '-e', script]) }, host(), {}, patient);
        await opened(transport);
        const removed = transport.close('remove');
        if (closeMs === 0) while (!existsSync(reported)) await setTimeout(20);
        await transport.close('interrupt');
        await removed;
        assert.deepEqual(await engine.containers(), []);
      }
    });

    test('S2.8 fault:F03 a container that exits ends its calls, and the gateway knows its exit code', async () => {
      const transport = made({ image: image(['node', fixture('server.mjs')]) });
      const receiver = new RecordingReceiver();
      await transport.open(receiver);
      const ask = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { do: 'exit' } };
      transport.send([Buffer.from(JSON.stringify(ask))], { request: 1, method: 'tools/call', headers: null });
      assert.equal((await receiver.loss(1)).outcome, 'UNKNOWN');
      await receiver.until(() => receiver.closedReasons.length > 0);
      assert.deepEqual(receiver.closedReasons, [{ kind: 'exited', code: 7, signal: null }]);
      await transport.close('remove');
      assert.deepEqual(await engine.containers(), []);
    });

    test('S2.8 check:B2 the gateway attaches to a running container, separates its streams, and leaves it running when its server is removed', async () => {
      const echo = `const o=process.stdout;console.error('noise');process.stdin.on('data',d=>o.write(d)).on('end',()=>{});setInterval(()=>{},1000)`;
      const mine = made({ image: image(['node', '-e', echo]) }, host('somebody'));
      await mine.open(new RecordingReceiver());
      const [id] = await engine.containers();
      const transport = made({ container: id!.slice(0, 12) }, host('another'));
      const receiver = new RecordingReceiver();
      await transport.open(receiver);
      transport.send([Buffer.from('{"jsonrpc":"2.0","id":1,"result":{}}')], { request: 0, method: '', headers: null });
      await receiver.until(() => receiver.messages.length === 1);
      await transport.close('remove');
      assert.deepEqual(await engine.containers(), [id]);
      await mine.close('remove');
    });

    test('S2.8 the gateway removes containers that a killed gateway of its data folder left, and none of other owners', async () => {
      const endless = { image: image(['node', '-e', 'setInterval(() => {}, 1000)']) };
      const [left, foreign] = [made(endless, host('mine', 'killed')), made(endless, host('theirs', 'killed'))];
      await left.open(new RecordingReceiver());
      await foreign.open(new RecordingReceiver());
      const counts: number[] = [];
      const own = host('mine', 'next', (count) => counts.push(count));
      const [next, beside] = [made(endless, own), made(endless, own)];
      for (const transport of [next, beside]) await transport.open(new RecordingReceiver());
      assert.deepEqual(counts, [1]);
      assert.equal((await engine.containers()).length, 3);
      for (const transport of [left, foreign, next, beside]) await transport.close('interrupt');
      assert.deepEqual(await engine.containers(), []);
    });

    test('S2.8 S1.19 a container that cannot start is reported with cause and remedy, and leaves nothing', async () => {
      const cases = [
        [{ image: image([], { name: 'nothing:none' }) }, /image nothing:none is not on this machine; run "docker pull/],
        [{ container: 'nobody' }, /No such container: nobody/],
        [{ image: image([], { entrypoint: [] }) }, /No command specified/],
      ] as const;
      for (const [target, words] of cases) {
        const refused = (error: Error) =>
          words.test(error.message) && 'outcome' in error && error.outcome === 'NOT_SENT';
        await assert.rejects(made(target).open(new RecordingReceiver()), refused);
      }
      const transport = made({ image: image(['no-such-program']) });
      const receiver = new RecordingReceiver();
      await transport.open(receiver);
      await receiver.until(() => receiver.closedReasons.length > 0);
      assert.deepEqual(receiver.closedReasons, [{ kind: 'exited', code: 127, signal: null }]);
      assert.match(transport.stderrTail(), /no-such-program/);
      await transport.close('remove');
      assert.deepEqual(await engine.containers(), []);
    });
  });
