import { RotatingIssuer } from '../fixtures/oauth/rotating-issuer.ts';
import { callable } from './cluster-facts.ts';
import { ClusterProcesses, type NodeOptions, type NodeProcess } from './cluster-processes.ts';
import { PostgresServer } from './postgres-server.ts';
import type { Json } from './raw-http.ts';
import type { RunningGateway } from './running-gateway.ts';

/** Signs in to the server by the control API, as a user who consents at once. */
export async function signIn(issuer: RotatingIssuer, gateway: RunningGateway, server: string): Promise<void> {
  const body = JSON.stringify({ redirectUri: 'http://127.0.0.1:9/back' });
  const started = await gateway.control<Json>(`/api/v1/servers/${server}/login`, 'POST', body);
  const url = await issuer.authorize(started.url);
  await gateway.control('/api/v1/login-redirects', 'POST', JSON.stringify({ url }));
}

/** Three nodes on one NATS and one PostgreSQL, in front of protected servers that a user has signed in to once. */
export class SignedInNodes {
  readonly issuer: RotatingIssuer;
  readonly database: PostgresServer;
  readonly cluster: ClusterProcesses;
  readonly servers: readonly string[];

  static async start(servers: readonly string[], options: Partial<NodeOptions> = {}): Promise<SignedInNodes> {
    const [issuer, database, cluster] = await Promise.all([
      RotatingIssuer.start(),
      PostgresServer.start(),
      ClusterProcesses.start(),
    ]);
    const nodes = new SignedInNodes(issuer, database, cluster, servers);
    try {
      const mcpServers = Object.fromEntries(
        servers.map((name) => [name, { type: 'http', url: issuer.urlOf(name), start: 'eager' }]),
      );
      const store = { cluster: { store: database.url } };
      for (const name of ['a', 'b', 'c']) await cluster.node(name, mcpServers, store, options);
      for (const server of servers) await signIn(issuer, nodes.first.gateway, server);
      for (const node of cluster.nodes) await callable(node, ...servers);
      return nodes;
    } catch (error) {
      for (const { name, stderr } of cluster.nodes) console.error(`--- ${name}\n${stderr.slice(-6_000)}`);
      await nodes.dispose();
      throw error;
    }
  }

  private constructor(
    issuer: RotatingIssuer,
    database: PostgresServer,
    cluster: ClusterProcesses,
    servers: readonly string[],
  ) {
    this.issuer = issuer;
    this.database = database;
    this.cluster = cluster;
    this.servers = servers;
  }

  get first(): NodeProcess {
    return this.cluster.nodes[0]!;
  }

  async dispose(): Promise<void> {
    await this.cluster.dispose();
    await this.issuer.stop();
    await this.database[Symbol.asyncDispose]();
  }
}
