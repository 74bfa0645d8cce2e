import type { HttpClientPort } from '../http/client/client-port.ts';
import { openHttpClient } from '../http/client/open-http-client.ts';
import { Resolver } from '../http/client/resolver.ts';
import type { Clock } from '../model/clock.ts';
import type { Credentials } from '../model/credential-ports.ts';
import type { ProcessGuard } from '../model/process-guard.ts';
import type { Random } from '../model/random.ts';
import type { Logger } from '../telemetry/logger.ts';
import { ContainerHost } from '../upstream/docker/container.ts';
import { DockerTransport } from '../upstream/transport/docker-transport.ts';
import { HttpTransport } from '../upstream/transport/http-transport.ts';
import { HttpClientShare } from '../upstream/transport/http-wire.ts';
import { type MemoryServerFactory, MemoryTransport } from '../upstream/transport/memory-transport.ts';
import { JsonTransport } from '../upstream/transport/post-transport.ts';
import { SseTransport } from '../upstream/transport/sse-transport.ts';
import { StdioTransport } from '../upstream/transport/stdio-transport.ts';
import type { OpenTransport, Transport } from '../upstream/transport/transport.ts';

export interface TransportsDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly credentials?: Credentials;
  readonly resolver?: Resolver;
  readonly guard: ProcessGuard;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Label of the containers of this gateway; stays the same after a restart. */
  readonly owner: string;
  /** In-process servers by the key of their definition. */
  readonly memoryServers: ReadonlyMap<string, MemoryServerFactory>;
}

/** Returns a function that creates the transport of a definition. Only this module maps types to classes. */
export function transports(deps: TransportsDeps): OpenTransport {
  const { clock, random, env } = deps;
  const clients = new HttpClientShare(clock);
  const containers = new ContainerHost({
    owner: deps.owner,
    run: random.hex(8),
    environment: env,
    onOrphansRemoved: (count) => deps.logger.warn('containers_swept', { count }),
    onRemovalFailed: (id, reason) => deps.logger.warn('container_left', { container: id.slice(0, 12), reason }),
  });
  const resolver = deps.resolver ?? new Resolver({ clock });
  return (server, { kind, label, phases = null, owned }): Transport => {
    const spec = server.transport;
    const { maxMessageBytes } = server.limits;
    const common = { server: server.name, maxMessageBytes, clock };
    const ofProcess = {
      ...common,
      logger: deps.logger.child({ server: server.name, connection: label }),
      ...(owned && { owned }),
    };
    switch (spec.type) {
      case 'stdio':
        return new StdioTransport({ ...ofProcess, spec, guard: deps.guard, environment: env });
      case 'docker':
        return new DockerTransport({ ...ofProcess, spec, host: containers });
      case 'memory': {
        const factory = deps.memoryServers.get(spec.key);
        if (factory === undefined) throw new Error(`no in-process server under the key ${JSON.stringify(spec.key)}`);
        return new MemoryTransport(server.name, factory, ofProcess.logger);
      }
      default: {
        // All connections of a server share one socket pool: thousands of sessions need as many sockets as concurrent calls.
        const openClient = (url: URL): HttpClientPort =>
          clients.lease(`${server.name} ${server.connectionDigest} ${url.origin}`, phases, () =>
            openHttpClient(url, { tls: spec.tls, env, resolver, phases, publicOnly: spec.publicOnly === true }),
          );
        const lease = deps.credentials?.lease(server) ?? null;
        const options = { ...common, spec, random, openClient, lease };
        if (kind === 'sse') return new SseTransport(options);
        return kind === 'json' ? new JsonTransport(options) : new HttpTransport(options);
      }
    }
  };
}
