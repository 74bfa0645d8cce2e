import { type ConfigProblem, renderProblem } from '../config/problem/problem.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';

export type Reload =
  | {
      readonly kind: 'applied' | 'unchanged';
      /** Problems of single definitions. */
      readonly misconfigured: readonly ConfigProblem[];
      readonly warnings: readonly ConfigProblem[];
      readonly secrets: readonly string[];
    }
  /** The previous configuration stays in force. */
  | { readonly kind: 'refused'; readonly problems: readonly ConfigProblem[]; readonly secrets: readonly string[] };

type Findings = Pick<Extract<Reload, { kind: 'applied' | 'unchanged' }>, 'misconfigured' | 'warnings'>;

/**
 * Reports readings of the configuration after the start: counts each, and logs one whose problems differ from the last reported.
 * `first`: the problems at the start.
 */
export function reloadReport(logger: Logger, metrics: Metrics, first: Findings): (reload: Reload) => void {
  let reported = JSON.stringify([first.misconfigured, first.warnings]);
  return (reload) => {
    for (const secret of reload.secrets) logger.addSecret(secret);
    metrics
      .counter('trunkline_config_reloads_total', 'Readings of the configuration after start.', ['result'])
      .of(reload.kind)
      .add();
    const refused = reload.kind === 'refused';
    const wrong = JSON.stringify(refused ? [reload.problems] : [reload.misconfigured, reload.warnings]);
    // The files are read every 30 s, so the same problems are not logged again.
    if (wrong === reported) return;
    reported = wrong;
    if (refused) {
      for (const problem of reload.problems)
        logger.error('config_refused', { code: problem.code, problem: renderProblem(problem) });
      logger.warn('config_kept', { reason: 'the changed configuration has errors; the one before stays in force' });
    } else {
      logMisconfigured(reload.misconfigured, logger);
      logWarnings(reload.warnings, logger);
    }
  };
}

export function logWarnings(warnings: readonly ConfigProblem[], logger: Logger): void {
  for (const warning of warnings) {
    logger.warn('config_warning', { code: warning.code, problem: renderProblem(warning) });
  }
}

/** Each problem names its server; the other servers start or continue. */
export function logMisconfigured(problems: readonly ConfigProblem[], logger: Logger): void {
  for (const problem of problems) {
    logger.error('server_misconfigured', { code: problem.code, problem: renderProblem(problem) });
  }
}
