import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ClusterNode } from '../chaos/cluster-node.ts';

const CHART = resolve(import.meta.dirname, '../../deploy/helm/trunkline/templates/trunkline.yaml');
/** From the decision of the control plane until each machine has the changed endpoints. */
const PROPAGATION_MS = 500;
/** The defaults of Kubernetes for a probe. */
const DEFAULTS = { periodSeconds: 10, timeoutSeconds: 1, failureThreshold: 3 };

interface Probe {
  readonly path: string;
  readonly host: string;
  readonly periodMs: number;
  readonly timeoutMs: number;
  readonly failureThreshold: number;
}

interface Pod {
  readonly node: ClusterNode;
  /** Whether the endpoints of the Service include the pod. */
  listed: boolean;
  terminating: boolean;
}

/**
 * Treats nodes like the kubelet and kube-proxy treat pods of a Service, with the probes and grace period of the chart. Each
 * connection goes to a random ready pod and stays there; a pod that is deleted gets SIGTERM while its address is still
 * listed for a while.
 */
export class KubernetesService implements AsyncDisposable {
  /** Liveness probes that failed often enough for a restart of the container. */
  readonly restarts: string[] = [];
  readonly #readiness = probe('readinessProbe');
  readonly #liveness = probe('livenessProbe');
  readonly #graceMs = Number(/terminationGracePeriodSeconds: (\d+)/.exec(readFileSync(CHART, 'utf8'))![1]) * 1000;
  readonly #pods: readonly Pod[];
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #stop = new AbortController();
  readonly #loops: readonly Promise<void>[];

  static async start(nodes: readonly ClusterNode[]): Promise<KubernetesService> {
    const service = new KubernetesService(nodes);
    service.#server.listen(0, '127.0.0.1');
    await once(service.#server, 'listening');
    return service;
  }

  private constructor(nodes: readonly ClusterNode[]) {
    this.#pods = nodes.map((node) => ({ node, listed: true, terminating: false }));
    this.#server = createServer((near) => this.#connect(near));
    this.#loops = this.#pods.flatMap((pod) => [
      this.#watch(pod, this.#readiness, (ready) => {
        if (!pod.terminating) void this.#list(pod, ready);
      }),
      this.#watch(pod, this.#liveness, (alive) => {
        if (!alive && !pod.terminating) this.restarts.push(pod.node.name);
      }),
    ]);
  }

  get port(): number {
    return (this.#server.address() as { port: number }).port;
  }

  get allListed(): boolean {
    return this.#pods.every(({ listed }) => listed);
  }

  /** Deletes the pod of a node and starts the next one; resolves with the exit code and how long the end took. */
  async replace(node: ClusterNode): Promise<{ code: number | null; endedInMs: number }> {
    const pod = this.#pods.find((one) => one.node === node)!;
    pod.terminating = true;
    const begunAt = performance.now();
    void this.#list(pod, false);
    const process = node.process;
    const late = setTimeout(() => process?.kill('SIGKILL'), this.#graceMs);
    const code = await node.leave();
    clearTimeout(late);
    const endedInMs = performance.now() - begunAt;
    await node.start();
    pod.terminating = false;
    return { code, endedInMs };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await Promise.all(this.#loops);
  }

  async #list(pod: Pod, listed: boolean): Promise<void> {
    await sleep(PROPAGATION_MS);
    // A pod that is being deleted is not listed again by an earlier probe.
    pod.listed = listed && !pod.terminating;
  }

  async #watch(pod: Pod, { failureThreshold, periodMs, ...asked }: Probe, report: (good: boolean) => void) {
    let failures = 0;
    for (; !this.#stop.signal.aborted; await sleep(periodMs, null, { signal: this.#stop.signal }).catch(() => {})) {
      const { process } = pod.node;
      if (process === null) continue;
      failures = (await succeeds(new URL(process.mcpUrl), asked)) ? 0 : failures + 1;
      if (failures === 0) report(true);
      else if (failures === failureThreshold) report(false);
    }
  }

  #connect(near: Socket): void {
    const ports = this.#pods.flatMap(({ listed, node: { process } }) =>
      listed && process !== null ? [Number(new URL(process.mcpUrl).port)] : [],
    );
    if (ports.length === 0) return void near.resetAndDestroy();
    const far = connect(ports[Math.floor(Math.random() * ports.length)]!, '127.0.0.1');
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      this.#sockets.add(socket);
      socket.setNoDelay(true);
      socket.on('error', () => other.resetAndDestroy());
      socket.on('close', () => this.#sockets.delete(socket));
      socket.pipe(other);
    }
  }
}

async function succeeds(url: URL, { path, host, timeoutMs }: Omit<Probe, 'periodMs' | 'failureThreshold'>) {
  return new Promise<boolean>((done) => {
    const { hostname, port } = url;
    const asked = request({ hostname, port, path, headers: { host }, agent: false, timeout: timeoutMs }, (answer) => {
      answer.resume();
      done(answer.statusCode! >= 200 && answer.statusCode! < 400);
    });
    asked.on('timeout', () => asked.destroy());
    asked.on('error', () => done(false));
    asked.on('close', () => done(false));
    asked.end();
  });
}

/** The probe in the chart. */
function probe(name: string): Probe {
  const text = new RegExp(`^( *)${name}:\\n((?:\\1 +.*\\n)+)`, 'm').exec(readFileSync(CHART, 'utf8'))![2]!;
  const number = (key: keyof typeof DEFAULTS): number =>
    Number(new RegExp(`${key}: (\\d+)`).exec(text)?.[1] ?? DEFAULTS[key]);
  return {
    path: /path: (\S+),/.exec(text)![1]!,
    host: /name: Host, value: (\w+)/.exec(text)![1]!,
    periodMs: number('periodSeconds') * 1000,
    timeoutMs: number('timeoutSeconds') * 1000,
    failureThreshold: number('failureThreshold'),
  };
}
