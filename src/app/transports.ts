import type { HttpClientPort } from '../http/client/client-port.ts';
import { openHttpClient } from '../http/client/open-http-client.ts';
import type { PhaseTimes } from '../http/client/phase-times.ts';
import { Resolver } from '../http/client/resolver.ts';
import type { Clock } from '../model/clock.ts';
import type { Random } from '../model/random.ts';
import type { HttpSpec, Server } from '../model/server.ts';
import type { Logger } from '../telemetry/logger.ts';
import { ContainerHost } from '../upstream/docker/container.ts';
import type { ProcessGuard } from '../upstream/process/reaper.ts';
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
  readonly guard: ProcessGuard;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** What containers that are run from here are known by, over restarts. */
  readonly owner: string;
  /** In-process servers by the key of their definition. */
  readonly memoryServers: ReadonlyMap<string, MemoryServerFactory>;
}

/** Makes the transport a definition asks for: the one place that knows which class serves which type. */
export function transports(deps: TransportsDeps): OpenTransport {
  const clients = new HttpClientShare();
  const containers = new ContainerHost({
    owner: deps.owner,
    run: deps.random.hex(8),
    environment: deps.env,
    swept: (count) => deps.logger.warn('containers_swept', { count }),
  });
  const resolver = new Resolver({ clock: deps.clock });
  return (server, { kind, label, phases = null }): Transport => {
    const logger = deps.logger.child({ server: server.name, connection: label });
    const spec = server.transport;
    switch (spec.type) {
      case 'stdio':
        return new StdioTransport({
          server: server.name,
          spec,
          maxMessageBytes: server.limits.maxMessageBytes,
          guard: deps.guard,
          logger,
          redact: (text) => deps.logger.redact(text),
          clock: deps.clock,
          environment: deps.env,
        });
      case 'docker':
        return new DockerTransport({
          server: server.name,
          spec,
          maxMessageBytes: server.limits.maxMessageBytes,
          host: containers,
          logger,
          redact: (text) => deps.logger.redact(text),
          clock: deps.clock,
        });
      case 'memory': {
        const factory = deps.memoryServers.get(spec.key);
        if (factory === undefined) throw new Error(`no in-process server under the key ${JSON.stringify(spec.key)}`);
        return new MemoryTransport(server.name, factory);
      }
      default:
        return overHttp(server, spec, kind, deps, clients, resolver, phases);
    }
  };
}

/** All connections of a server share one pool of sockets: thousands of sessions, as many sockets as calls at once. */
function overHttp(
  server: Server,
  spec: HttpSpec,
  kind: Transport['kind'],
  deps: TransportsDeps,
  clients: HttpClientShare,
  resolver: Resolver,
  phases: PhaseTimes | null,
): Transport {
  const options = {
    server: server.name,
    spec,
    maxMessageBytes: server.limits.maxMessageBytes,
    clock: deps.clock,
    random: deps.random,
    openClient: (url: URL): HttpClientPort =>
      clients.lease(`${server.name} ${server.connectionDigest} ${url.origin}`, () =>
        openHttpClient(url, { tls: spec.tls, env: deps.env, resolver, phases, publicOnly: spec.publicOnly === true }),
      ),
  };
  if (kind === 'sse') return new SseTransport(options);
  return kind === 'json' ? new JsonTransport(options) : new HttpTransport(options);
}
