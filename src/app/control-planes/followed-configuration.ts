import { isDeepStrictEqual } from 'node:util';
import type { ConfigurationPlane } from '../../control/control-plane.ts';
import type { ConfigurationPlan, ConfigurationView, ReloadView } from '../../model/configuration.ts';
import type { DesiredState } from '../../model/desired-state.ts';
import type { ConfigFollower } from '../../registry/config-follower.ts';
import { serverChanges } from '../../registry/plan.ts';
import { type RegistryChange, revealed } from '../../registry/registry.ts';
import { ReloadHistory } from '../../registry/reload-history.ts';
import type { Reload } from '../../registry/reload-report.ts';
import type { Components } from '../components.ts';

/** Settings that are read at the start only; of `listen` these parts. */
const READ_AT_START: Readonly<Record<string, (state: DesiredState) => unknown>> = {
  listen: ({ listen: { host, port, tls } }) => ({ host, port, tls }),
  control: ({ control }) => control,
  metricsAddress: ({ metricsAddress }) => metricsAddress,
  telemetry: ({ telemetry }) => telemetry,
  cluster: ({ cluster }) => cluster,
  dataDir: ({ dataDir }) => dataDir,
};

/** The configuration in the files, what of it is in force, and the history of its changes. */
export class FollowedConfiguration implements ConfigurationPlane {
  readonly #components: Pick<Components, 'registry' | 'logger' | 'runTime' | 'serverEvents'>;
  readonly #follower: ConfigFollower;
  readonly #history: ReloadHistory;
  readonly #unread: () => readonly string[];
  /** With the settings that were read at the start. */
  #atStart: DesiredState;
  #warnings: ConfigFollower['warnings'];

  constructor(
    components: Pick<Components, 'registry' | 'logger' | 'runTime' | 'clock' | 'serverEvents'>,
    follower: ConfigFollower,
    unread: () => readonly string[],
  ) {
    this.#components = components;
    this.#follower = follower;
    this.#unread = unread;
    this.#atStart = components.registry.state;
    this.#warnings = follower.warnings;
    this.#history = new ReloadHistory(components.clock, components.registry.state, follower.problems);
    components.registry.onChange((change) => {
      this.#history.recordChange(change, follower.problems);
      components.serverEvents.changed('configuration');
    });
  }

  /** The listeners are opened with these settings, also if they changed since the start. */
  listening({ listen, control, metricsAddress }: DesiredState): void {
    this.#atStart = { ...this.#atStart, listen, control, metricsAddress };
  }

  /** The files were read. */
  onReload(reload: Reload): void {
    const { warnings } = this.#follower;
    const isOther = !isDeepStrictEqual(warnings, this.#warnings);
    this.#warnings = warnings;
    if (this.#history.recordReading(reload) || isOther) this.#components.serverEvents.changed('configuration');
  }

  refused(server: string): string | null {
    return this.#follower.refused(server);
  }

  view(): ConfigurationView {
    const { registry, runTime } = this.#components;
    const servers = [...registry.state.servers.values()];
    const added = servers.filter(({ name }) => runTime.provenance(name)?.source !== 'file');
    const ofFiles = servers.filter((server) => !added.includes(server));
    const files = [...new Set([...registry.state.files, ...ofFiles.map(({ origin }) => origin.file)])];
    return {
      version: registry.version,
      sources: files.map((file) => ({
        file,
        servers: ofFiles
          .filter(({ origin }) => origin.file === file)
          .map(({ name, origin }) => ({ server: name, line: origin.line })),
      })),
      runTime: added.map(({ name }) => name),
      problems: this.#follower.problems,
      warnings: this.#follower.warnings,
      unread: this.#unread(),
      history: this.#history.records,
    };
  }

  async plan(): Promise<ConfigurationPlan> {
    const { problems, warnings, secrets, change } = await this.#follower.plan();
    // Register the secrets first, because texts that are shown are redacted.
    for (const secret of secrets) this.#components.logger.addSecret(secret);
    if (change === null) return { problems, warnings, servers: [], settings: [], needRestart: [] };
    const { servers, settings, state } = change;
    const changed = serverChanges(this.#components.registry.state, state, servers);
    return { problems, warnings, servers: changed, settings, needRestart: this.needRestart({ settings, state }) };
  }

  /** Returns the changed settings whose new value is in force after a restart only. */
  needRestart({ settings, state }: Pick<RegistryChange, 'settings' | 'state'>): readonly string[] {
    return settings.filter((name) => {
      const part = READ_AT_START[name];
      return part !== undefined && !isDeepStrictEqual(revealed(part(state)), revealed(part(this.#atStart)));
    });
  }

  async reload(): Promise<ReloadView> {
    const reload = await this.#follower.reload();
    const problems = reload.kind === 'refused' ? reload.problems : reload.misconfigured;
    return { result: reload.kind, version: this.#components.registry.version, problems };
  }
}
