import { type ConfigProblem, renderProblem } from '../config/problem/problem.ts';
import type { Reload } from '../registry/config-follower.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Rooms } from './rooms.ts';

/** Tells of readings of the configuration after the start: each is counted, and logged when something else is wrong than before. */
export class ReloadReport {
  readonly #rooms: Pick<Rooms, 'logger' | 'metrics'>;
  /** What was wrong with the files at the last report. */
  #reported: string;

  constructor(rooms: Pick<Rooms, 'logger' | 'metrics' | 'loaded'>) {
    this.#rooms = rooms;
    this.#reported = JSON.stringify(reportOf(rooms.loaded));
  }

  tell(reload: Reload): void {
    const { logger, metrics } = this.#rooms;
    for (const secret of reload.secrets) logger.addSecret(secret);
    metrics
      .counter('trunkline_config_reloads_total', 'Readings of the configuration after start.', ['result'])
      .of(reload.kind)
      .add();
    const reported = JSON.stringify(reload.kind === 'refused' ? [reload.problems] : reportOf(reload));
    // They are read every 30 s.
    if (reported === this.#reported) return;
    this.#reported = reported;
    if (reload.kind === 'refused') {
      for (const problem of reload.problems)
        logger.error('config_refused', { code: problem.code, problem: renderProblem(problem) });
      logger.warn('config_kept', { reason: 'the changed configuration has errors; the one before stays in force' });
    } else {
      tellMisconfigured(reload.misconfigured, logger);
      logWarnings(reload.warnings, logger);
    }
  }
}

type Findings = Pick<Extract<Reload, { kind: 'applied' | 'unchanged' }>, 'misconfigured' | 'warnings'>;

function reportOf({ misconfigured, warnings }: Findings): readonly unknown[] {
  return [misconfigured, warnings];
}

export function logWarnings(warnings: readonly ConfigProblem[], logger: Logger): void {
  for (const warning of warnings) {
    logger.warn('config_warning', { code: warning.code, problem: renderProblem(warning) });
  }
}

/** Each names its server, and the others start or go on. */
export function tellMisconfigured(problems: readonly ConfigProblem[], logger: Logger): void {
  for (const problem of problems) {
    logger.error('server_misconfigured', { code: problem.code, problem: renderProblem(problem) });
  }
}
