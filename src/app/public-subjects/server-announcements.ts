import type { Wire } from '../../bus/wire.ts';
import type { KnownServers } from '../../cluster/nodes/known-servers.ts';
import type { Clock } from '../../model/clock.ts';
import type { DesiredState } from '../../model/desired-state.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Upstreams } from '../../model/ports.ts';
import { sanitizedDefinition, sanitizedDescription } from '../../model/sanitized-definition.ts';
import type { Server } from '../../model/server.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Operations } from '../operations.ts';
import { SUBJECT_CREATED, SUBJECT_DELETED } from './subjects.ts';

/**
 * Delay of announcements. Within it nodes learn each other's servers: whether another node now has a server that one removed,
 * and, after an outage, which other nodes there are.
 */
const SETTLED_MS = 1_000;

interface ServerAnnouncementsDeps {
  readonly clock: Clock;
  readonly wire: Pick<Wire, 'connected' | 'publish' | 'onChange'>;
  readonly registry: { readonly state: Pick<DesiredState, 'servers'> };
  /** All servers of the cluster, also those whose lost nodes may return. */
  readonly allUpstreams: Pick<Upstreams, 'servers'>;
  readonly known: Pick<KnownServers, 'instances' | 'against'>;
  readonly logger: Pick<Logger, 'redact'>;
  /** Null without a tracker. */
  readonly operations: Operations | null;
}

/**
 * Announces servers to programs (S0.3, S0.4). A node that has the server sends `created`, because only such a node knows its
 * definition. When no node serves it any more, every node sends `deleted`, because the last node that had it may be lost.
 */
export class ServerAnnouncements {
  readonly #deps: ServerAnnouncementsDeps;
  /** Servers that are served, or removed and not announced yet. */
  readonly #known: Set<string>;
  /** Removed servers that are not announced yet, with the function that cancels the timer. */
  readonly #gone = new Map<string, () => void>();
  /** Servers that this node has announced on its current connection to NATS. */
  readonly #announced = new Set<string>();
  readonly #unsubscribe: () => void;
  #disarm: () => void = () => {};
  #closed = false;

  constructor(deps: ServerAnnouncementsDeps) {
    this.#deps = deps;
    this.#known = new Set(publicNames(deps.allUpstreams));
    this.#unsubscribe = deps.wire.onChange(({ type }) => {
      if (type === 'connected') this.#connected();
    });
    if (deps.wire.connected) this.#connected();
  }

  /** The servers of the cluster may have changed. */
  update(): void {
    if (this.#closed) return;
    const served = new Set(publicNames(this.#deps.allUpstreams));
    for (const name of this.#known) if (!served.has(name) && !this.#gone.has(name)) this.#arm(name);
    for (const name of served) {
      this.#known.add(name);
      this.#gone.get(name)?.();
      this.#gone.delete(name);
    }
  }

  /** Announces those of these servers that this node has; they are new or changed. */
  changed(names: ReadonlySet<string>): void {
    for (const server of this.#own()) if (names.has(server.name)) this.#created(server);
  }

  /** Announces pending removals now, and nothing afterwards. */
  close(): void {
    this.#closed = true;
    this.#unsubscribe();
    this.#disarm();
    for (const [name, disarm] of this.#gone) {
      disarm();
      this.#deleted(name);
    }
    this.#gone.clear();
  }

  /** Announcements without a connection were lost: repeats those that no other node can have sent. */
  #connected(): void {
    for (const [name, disarm] of this.#gone) {
      disarm();
      this.#arm(name);
    }
    this.#disarm();
    this.#announced.clear();
    this.#disarm = this.#deps.clock.after(SETTLED_MS, () => {
      for (const server of this.#own()) {
        if (!this.#announced.has(server.name) && !this.#sameElsewhere(server)) this.#created(server);
      }
    });
  }

  /** Leaves out suspended, disabled and misconfigured servers: programs cannot call them. */
  #own(): readonly Server[] {
    return [...this.#deps.registry.state.servers.values()].filter(
      ({ enabled, misconfigured, onlyFor }) => enabled && misconfigured === undefined && onlyFor === undefined,
    );
  }

  /** Whether another live node has the same server, and none has another definition of its name. */
  #sameElsewhere(server: Server): boolean {
    const { known } = this.#deps;
    return known.instances(server.name).length > 0 && known.against(server).length === 0;
  }

  #arm(name: string): void {
    const announce = (): void => {
      // Stays pending until NATS is connected.
      if (!this.#deps.wire.connected) return;
      this.#gone.delete(name);
      this.#known.delete(name);
      this.#deleted(name);
    };
    this.#gone.set(name, this.#deps.clock.after(SETTLED_MS, announce));
  }

  #created(server: Server): void {
    this.#announced.add(server.name);
    this.#publish(
      'created',
      SUBJECT_CREATED,
      server.name,
      createdEvent(server, (text) => this.#deps.logger.redact(text)),
    );
  }

  #deleted(name: string): void {
    this.#publish('deleted', SUBJECT_DELETED, name, deletedEvent(name));
  }

  #publish(name: string, subject: string, server: string, event: Buffer): void {
    const { wire, clock, operations } = this.#deps;
    const since = clock.now();
    const error = wire.connected ? null : new GatewayError('NOT_SENT', 'there is no connection to NATS', { server });
    wire.publish(subject, event);
    operations?.report({ name, subject, server, error }, since);
  }
}

/** The servers that programs may see. One that was added for a session belongs to that session only (019). */
export function publicNames(upstreams: Pick<Upstreams, 'servers'>): readonly string[] {
  return upstreams.servers().flatMap(({ name, onlyFor }) => (onlyFor === undefined ? [name] : []));
}

/**
 * Returns the `created` event of a server (S0.3): the members of the seed's row that exist here. Leaves out variables and
 * headers; masks other secrets, or shows their references. `redact` masks every known secret.
 */
export function createdEvent({ name, description, transport }: Server, redact: (text: string) => string): Buffer {
  const { command, args, url } = sanitizedDefinition(transport);
  const event: Record<string, unknown> = { name, transport: transport.type };
  if (description !== null) event['description'] = redact(sanitizedDescription(description, transport));
  if (command !== null) Object.assign(event, { command: redact(command), args: args.map(redact) });
  if (url !== null) event['url'] = redact(url);
  return Buffer.from(JSON.stringify(event));
}

/** S0.5. */
function deletedEvent(name: string): Buffer {
  return Buffer.from(JSON.stringify({ name }));
}
