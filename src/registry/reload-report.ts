import { type ConfigProblem, renderProblem } from '../config/problem/problem.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';

export type Reload =
  | {
      readonly kind: 'applied' | 'unchanged';
      /** What is wrong with single definitions. */
      readonly misconfigured: readonly ConfigProblem[];
      readonly warnings: readonly ConfigProblem[];
      readonly secrets: readonly string[];
    }
  /** The old configuration stays in force. */
  | { readonly kind: 'refused'; readonly problems: readonly ConfigProblem[]; readonly secrets: readonly string[] };

/** Tells of readings of the configuration after the start: each is counted, and logged when something else is wrong than before. */
export class ReloadReport {
  readonly #logger: Logger;
  readonly #metrics: Metrics;
  /** What was wrong with the files at the last report. */
  #reported: string;

  /** `first`: what was wrong when the gateway started. */
  constructor(logger: Logger, metrics: Metrics, first: Findings) {
    this.#logger = logger;
    this.#metrics = metrics;
    this.#reported = JSON.stringify(reportOf(first));
  }

  tell(reload: Reload): void {
    const logger = this.#logger;
    for (const secret of reload.secrets) logger.addSecret(secret);
    this.#metrics
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
