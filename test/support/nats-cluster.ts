import { freePort } from './free-port.ts';
import { NatsServer } from './nats-server.ts';

/** Elections of nats-server 2.9 took up to 30 s. */
const PATIENCE_MS = 60_000;
/** The most servers of one cluster. */
const MOST = 4;

interface JetStreamReport {
  readonly account_details?: readonly {
    readonly stream_detail?: readonly { readonly name: string; readonly state: { readonly messages: number } }[];
  }[];
}

/** Servers of one cluster; later servers find the others by the first two. */
export class NatsCluster implements AsyncDisposable {
  readonly servers: NatsServer[] = [];
  readonly #monitors: number[] = [];
  readonly #program: string;
  readonly #ports: readonly number[];

  private constructor(program: string, ports: readonly number[]) {
    this.#program = program;
    this.#ports = ports;
  }

  static async of(program: string, count: number): Promise<NatsCluster> {
    const cluster = new NatsCluster(program, await Promise.all(Array.from({ length: MOST }, freePort)));
    for (let at = 0; at < count; at++) await cluster.add();
    return cluster;
  }

  async add(jetStream = true): Promise<NatsServer> {
    const at = this.servers.length;
    const routes = this.#ports.slice(0, 2).map((port) => `"nats://127.0.0.1:${port}"`);
    const listen = `listen: "127.0.0.1:${this.#ports[at]}", routes: [${routes.join()}]`;
    const monitor = await freePort();
    const config = `server_name: n${at}\nhttp: "127.0.0.1:${monitor}"\ncluster { name: many, ${listen} }`;
    const server = await NatsServer.start({ program: this.#program, config, jetStream });
    this.servers.push(server);
    this.#monitors.push(monitor);
    return server;
  }

  /** How many messages of a stream each server has stored; what a server reports of the others may be wrong. */
  async stored(stream: string): Promise<readonly number[]> {
    const counts = this.#monitors.map(async (port) => {
      const answer = await fetch(`http://127.0.0.1:${port}/jsz?streams=1`);
      const { account_details: accounts = [] } = (await answer.json()) as JetStreamReport;
      const [details] = accounts
        .flatMap(({ stream_detail = [] }) => stream_detail)
        .filter(({ name }) => name === stream);
      return details?.state.messages ?? 0;
    });
    return Promise.all(counts);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const server of this.servers) await server[Symbol.asyncDispose]();
  }
}

/** Repeats the attempt until it succeeds; a cluster needs some seconds for its first leader. */
export async function eventually<T>(attempt: () => Promise<T>): Promise<T> {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if (Date.now() > end) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}
