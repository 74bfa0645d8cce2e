import type { Wire } from '../../bus/wire.ts';
import type { KnownServers } from '../../cluster/nodes/known-servers.ts';
import type { Clock } from '../../model/clock.ts';
import type { DesiredState } from '../../model/desired-state.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Upstreams } from '../../model/ports.ts';
import type { Server } from '../../model/server.ts';
import { sweptDefinition, sweptDescription } from '../../model/swept-definition.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Operations } from '../operations.ts';
import { SUBJECT_CREATED, SUBJECT_DELETED } from './subjects.ts';

/**
 * What one node drops another may just have been given, and nodes hear of each other's servers within a fraction of this.
 * A node that was away knows the others by then.
 */
const SETTLED_MS = 1_000;

interface ServerAnnouncementsDeps {
  readonly clock: Clock;
  readonly wire: Pick<Wire, 'connected' | 'publish' | 'onChange'>;
  readonly registry: { readonly state: Pick<DesiredState, 'servers'> };
  /** All that the cluster serves, those included whose nodes may be back. */
  readonly everywhere: Pick<Upstreams, 'servers'>;
  readonly known: Pick<KnownServers, 'instances' | 'against'>;
  readonly logger: Pick<Logger, 'redact'>;
  /** Null: no tracker. */
  readonly operations: Operations | null;
}

/**
 * Tells programs of servers (S0.3, S0.4). A node that has the server sends `created`: only such a node knows its facts. When
 * the cluster no longer serves it, every node sends `deleted`, because the node that had it last may be gone.
 */
export class ServerAnnouncements {
  readonly #deps: ServerAnnouncementsDeps;
  /** Served, or gone and not announced yet. */
  readonly #known: Set<string>;
  /** Gone a moment ago. The functions end the waiting. */
  readonly #gone = new Map<string, () => void>();
  /** Announced since this node has its connection to NATS. */
  readonly #announced = new Set<string>();
  readonly #unsubscribe: () => void;
  #disarm: () => void = () => {};
  #closed = false;

  constructor(deps: ServerAnnouncementsDeps) {
    this.#deps = deps;
    this.#known = new Set(this.#names());
    this.#unsubscribe = deps.wire.onChange(({ type }) => {
      if (type === 'connected') this.#connected();
    });
    if (deps.wire.connected) this.#connected();
  }

  /** The cluster may serve others than before. */
  look(): void {
    if (this.#closed) return;
    const served = new Set(this.#names());
    for (const name of this.#known) if (!served.has(name) && !this.#gone.has(name)) this.#arm(name);
    for (const name of served) {
      this.#known.add(name);
      this.#gone.get(name)?.();
      this.#gone.delete(name);
    }
  }

  /** These of this node's servers are new, or others than before. */
  changed(names: ReadonlySet<string>): void {
    for (const server of this.#own()) if (names.has(server.name)) this.#created(server);
  }

  /** Nothing is announced any more; what is due is announced now. */
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

  /** Announcements before the connection were lost: repeats those that no other node can have sent. */
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

  #names(): readonly string[] {
    return this.#deps.everywhere.servers().map(({ name }) => name);
  }

  /** For programs a suspended or disabled server is gone, with its subjects. */
  #own(): readonly Server[] {
    return [...this.#deps.registry.state.servers.values()].filter(({ enabled }) => enabled);
  }

  /** Whether another node that is there has the same server, and none has another one by its name. */
  #sameElsewhere(server: Server): boolean {
    const { known } = this.#deps;
    return known.instances(server.name).length > 0 && known.against(server).length === 0;
  }

  #arm(name: string): void {
    const over = (): void => {
      // Kept until NATS is connected.
      if (!this.#deps.wire.connected) return;
      this.#gone.delete(name);
      this.#known.delete(name);
      this.#deleted(name);
    };
    this.#gone.set(name, this.#deps.clock.after(SETTLED_MS, over));
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
    operations?.ended({ name, subject, server, error }, since);
  }
}

/**
 * A server as programs on the bus hear of it (S0.3): the members that the seed's row has and we have too. Variables and
 * headers are left out; other secrets are masked, or their reference is shown. `redact` masks every known secret.
 */
export function createdEvent({ name, description, transport }: Server, redact: (text: string) => string): Buffer {
  const { command, args, url } = sweptDefinition(transport);
  const event: Record<string, unknown> = { name, transport: transport.type };
  if (description !== null) event['description'] = redact(sweptDescription(description, transport));
  if (command !== null) Object.assign(event, { command: redact(command), args: args.map(redact) });
  if (url !== null) event['url'] = redact(url);
  return Buffer.from(JSON.stringify(event));
}

/** S0.5. */
function deletedEvent(name: string): Buffer {
  return Buffer.from(JSON.stringify({ name }));
}
