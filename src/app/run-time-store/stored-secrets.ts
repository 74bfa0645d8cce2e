import { existsSync } from 'node:fs';
import { KeyRing } from '../../bus/trust/key-ring.ts';
import type { LoadOptions, SecretStoreSettings } from '../../config/load-config.ts';
import type { Records } from '../../credentials/credential-store.ts';
import type { ServerCredentials } from '../../credentials/credentials.ts';
import { reseal } from '../../credentials/reseal.ts';
import { Secrets } from '../../credentials/secrets.ts';
import { type KeySource, RecordSealing } from '../../gateway/sealer.ts';
import { type Clock, systemClock } from '../../model/clock.ts';
import { OneAtATime } from '../../model/one-at-a-time.ts';
import { type Random, systemRandom } from '../../model/random.ts';
import type { Sealing } from '../../model/sealing.ts';
import { CredentialKeys } from '../../store/credential-keys.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { AppOptions } from '../app-options.ts';
import type { ClusterConnection } from '../cluster/cluster-connection.ts';
import { gatewayFolder } from '../gateway-folders.ts';
import { openRunTimeStore } from './open-run-time-store.ts';

const KEY_BYTES = 32;

/**
 * Returns the keys that seal credentials and secrets at rest: from the cluster secret, or, for a lone gateway, from a file
 * beside the database. Without a data folder, a key in memory.
 */
export function credentialKeys(
  { state, load }: Pick<AppOptions, 'state' | 'load'>,
  { dataDir, cluster }: SecretStoreSettings,
  connection: Pick<ClusterConnection, 'key' | 'previousKeys'> | null,
  random: Random,
): KeySource {
  if (connection !== null) return { keys: [connection.key, ...(connection.previousKeys ?? [])] };
  if (cluster !== null && cluster.secrets.length > 0) {
    const ring = new KeyRing(cluster.secrets.map((secret) => secret.reveal()));
    return { keys: ring.keys('sealing').map(({ key }) => key) };
  }
  const make = (): string => random.hex(KEY_BYTES);
  const path = gatewayFolder(dataDir, load).file('credentials.key');
  // A command that only reads creates no folder; without the file there is nothing to open.
  const kept = state !== 'none' && (state !== 'look' || existsSync(path));
  return kept ? new CredentialKeys(path, make) : { keys: [Buffer.from(make(), 'hex')] };
}

/**
 * Returns the options with a source for `${secret:…}`, used only if the files have such a reference. It opens the store that
 * the files name, and closes it again. Its errors reject the reading of the configuration: StoreError, StoreUnusable or
 * FolderUnusable.
 */
export function withStoredSecrets(
  options: Pick<AppOptions, 'state' | 'load' | 'joins' | 'cluster'>,
  logger: Logger,
): LoadOptions {
  const secrets: LoadOptions['secrets'] = async (place) => {
    const { load, cluster: connection = null } = options;
    if (options.state === 'none' && (options.joins !== true || place.cluster?.store == null)) return new Map();
    const readOnlyOptions = { state: 'look', load } as const;
    const { runTimeStore } = openRunTimeStore(readOnlyOptions, { ...place, servers: new Map() }, systemClock, logger);
    try {
      const sealing = new RecordSealing(credentialKeys(readOnlyOptions, place, connection, systemRandom), systemRandom);
      const found = new Secrets({ records: runTimeStore, sealing, clock: systemClock, logger });
      await found.refresh();
      return found.values;
    } finally {
      await runTimeStore.close();
    }
  };
  return { ...options.load, secrets };
}

interface KeyRotationDeps {
  readonly source: KeySource;
  readonly records: Records;
  readonly sealing: Sealing;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** The keys of credentials. Rotations run one at a time and survive a crash: an old key is deleted when no record needs it. */
export class KeyRotation {
  readonly #deps: KeyRotationDeps;
  readonly #queue = new OneAtATime();

  constructor(deps: KeyRotationDeps) {
    this.#deps = deps;
  }

  /** Completes a rotation that was interrupted, or that a restart with a new cluster secret began. Never rejects. */
  async settle(): Promise<void> {
    const { source, logger } = this.#deps;
    if (source.keys.length < 2) return;
    try {
      const records = await this.#queue.run(() => this.#settle());
      logger.info('credentials_sealed_anew', { records });
    } catch (error) {
      logger.warn('credentials_not_sealed_anew', { reason: (error as Error).message });
    }
  }

  /** Resolves with the number of records sealed with a new key; null if the keys are not from a file of this gateway. */
  rotate(): Promise<number | null> {
    return this.#queue.run(async () => {
      const { source } = this.#deps;
      if (!(source instanceof CredentialKeys)) return null;
      source.beginRotation();
      return this.#settle();
    });
  }

  async #settle(): Promise<number> {
    const { source, records, sealing, clock } = this.#deps;
    const sealed = await reseal(records, sealing, clock);
    if (source instanceof CredentialKeys) source.finishRotation();
    return sealed;
  }
}

/** Returns the stored secrets and logins that no key opens, with the remedy. */
export function unreadable(components: {
  readonly secrets: Secrets;
  readonly credentials: ServerCredentials;
}): string[] {
  const lost = 'cannot be opened, the key that sealed it is gone';
  const secrets = [...components.secrets.values].filter(([, value]) => value === null);
  return [
    ...secrets.map(([name]) => `the secret ${name} ${lost}: set it again with trunkline secret set ${name}`),
    ...components.credentials.unreadable.map(
      (key) => `the login of ${key} ${lost}: sign in again with trunkline login ${key.replace(' ', ' --principal ')}`,
    ),
  ];
}
