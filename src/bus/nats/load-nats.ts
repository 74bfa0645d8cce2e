import { GatewayError } from '../../model/gateway-error.ts';

export type NatsCore = typeof import('@nats-io/transport-node');
export type NatsJetStream = typeof import('@nats-io/jetstream');

/** The NATS client is an optional dependency, loaded by whoever is told to join a cluster and by nobody else. */
export async function loadNats(): Promise<{ readonly core: NatsCore; readonly jetStream: NatsJetStream }> {
  try {
    const [core, jetStream] = await Promise.all([import('@nats-io/transport-node'), import('@nats-io/jetstream')]);
    return { core, jetStream };
  } catch (cause) {
    const text = 'a cluster needs the packages @nats-io/transport-node and @nats-io/jetstream, which are not installed';
    throw new GatewayError('NOT_SENT', text, { retryable: false, cause });
  }
}
