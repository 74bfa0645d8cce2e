export type NatsCore = typeof import('@nats-io/transport-node');
export type NatsJetStream = typeof import('@nats-io/jetstream');

/** The NATS client is loaded by whoever is told to join a cluster and by nobody else: every start would pay for it. */
export async function loadNats(): Promise<{ readonly core: NatsCore; readonly jetStream: NatsJetStream }> {
  const [core, jetStream] = await Promise.all([import('@nats-io/transport-node'), import('@nats-io/jetstream')]);
  return { core, jetStream };
}
