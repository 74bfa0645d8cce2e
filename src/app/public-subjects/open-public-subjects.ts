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
  registry.onChange(({ servers, state }: RegistryChange) => {
    for (const name of servers.removed) wire.publish(SUBJECT_DELETED, deletedEvent(name));
    for (const name of [...servers.added, ...servers.changed, ...servers.updated]) {
      const server = state.servers.get(name);
      if (server !== undefined) wire.publish(SUBJECT_CREATED, createdEvent(server));
    }
    subjects.sync();
  });
  return subjects;
}
