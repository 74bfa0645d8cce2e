import type { DesiredState } from '../../model/desired-state.ts';
import type { Server } from '../../model/server.ts';
import type { RegistryChange } from '../../registry/registry.ts';
import { Operator } from '../operator.ts';
import type { Rooms } from '../rooms.ts';
import { PublicSubjects } from './public-subjects.ts';
import { createdEvent, deletedEvent } from './server-events.ts';
import { SUBJECT_CREATED, SUBJECT_DELETED } from './subjects.ts';

/** The public subjects of a node whose configuration wants them; null for others. Events go out from now on (S0.3, S0.4). */
export function openPublicSubjects({
  connection,
  everywhere,
  gateway,
  random,
  operator,
  authenticator,
  registry,
  logger,
}: Rooms): PublicSubjects | null {
  const wire = connection?.wire;
  const { cluster } = registry.state;
  if (wire === undefined || cluster?.publicSubjects !== true) return null;
  const subjects = new PublicSubjects({
    wire,
    authenticator,
    publicPrincipal: cluster.publicPrincipal,
    servers: () => everywhere.servers().map(({ name }) => name),
    caller: (principal, conversation) =>
      new Operator(gateway, random, operator.profile.info ?? '{}', principal, `bus ${conversation}`),
  });
  let offered = offeredIn(registry.state);
  registry.onChange(({ servers, state }: RegistryChange) => {
    const before = offered;
    offered = offeredIn(state);
    // What is suspended or disabled is there no more for whoever hears of it, nor are its subjects.
    for (const name of before.keys()) if (!offered.has(name)) wire.publish(SUBJECT_DELETED, deletedEvent(name));
    // Whoever hears of a server may call it at once.
    subjects.sync();
    const others = new Set([...servers.added, ...servers.changed, ...servers.updated]);
    for (const [name, server] of offered) {
      if (others.has(name))
        wire.publish(
          SUBJECT_CREATED,
          createdEvent(server, (text) => logger.redact(text)),
        );
    }
  });
  return subjects;
}

function offeredIn({ servers }: DesiredState): ReadonlyMap<string, Server> {
  return new Map([...servers].filter(([, { enabled }]) => enabled));
}
