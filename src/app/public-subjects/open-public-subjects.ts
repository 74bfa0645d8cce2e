import { publicCallId } from '../../model/exchange.ts';
import { Operator, operatorProfile } from '../operator.ts';
import type { Rooms } from '../rooms.ts';
import { OpenCalls } from './open-calls.ts';
import { PublicSubjects, passedReply } from './public-subjects.ts';
import { ServerAnnouncements } from './server-announcements.ts';

/** What this node does for programs on the bus. */
export interface OpenSubjects {
  /** Calls that are answered at the moment. */
  readonly inFlight: number;
  /** The cluster serves others than before. */
  sync(): void;
  /** As `PublicSubjects.close`; servers are not announced any more. */
  close(): Promise<void>;
}

/** The public subjects of a node whose configuration wants them; null for others. Events go out from now on (S0.3, S0.4). */
export function openPublicSubjects({
  connection,
  cluster: node,
  everywhere,
  gateway,
  random,
  clock,
  operator,
  authenticator,
  registry,
  operations,
  logger,
}: Rooms): OpenSubjects | null {
  const wire = connection?.wire;
  const open = connection?.publicSubjects;
  if (wire === undefined || node === null || open === undefined) return null;
  const calls = new OpenCalls({
    bus: connection!.bus,
    wire,
    clock,
    others: () => node.peers.others(),
    stoodStill: (withinMs) => node.loop.stoodStill(withinMs),
  });
  node.listen({
    publicCall(reply, server, by) {
      const ended = calls.passed(reply, by);
      return (outcome) => ended(passedReply(outcome, server, wire.maxPayload));
    },
  });
  const names = (): string[] => everywhere.servers().map(({ name }) => name);
  const subjects = new PublicSubjects({
    wire,
    calls,
    authenticator,
    publicPrincipal: open.principal,
    servers: names,
    operations,
    caller(principal, conversation, reply) {
      const profile = operatorProfile(operator.profile.info ?? '{}', principal, `bus ${conversation}`);
      return new Operator(gateway, random, profile, publicCallId(reply));
    },
  });
  const events = new ServerAnnouncements({
    clock,
    wire,
    operations,
    registry,
    everywhere,
    known: node.known,
    logger,
  });
  const sync = (): void => {
    subjects.sync();
    events.look();
  };
  const unsubscribe = registry.onChange(({ servers }) => {
    // A program that hears of a server may call it at once.
    sync();
    events.changed(new Set([...servers.added, ...servers.changed, ...servers.updated]));
  });
  return {
    get inFlight() {
      return subjects.inFlight;
    },
    sync,
    close() {
      unsubscribe();
      events.close();
      return subjects.close();
    },
  };
}
