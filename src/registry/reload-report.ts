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

type Findings = Pick<Extract<Reload, { kind: 'applied' | 'unchanged' }>, 'misconfigured' | 'warnings'>;

/**
 * Tells of readings of the configuration after the start: each is counted, and logged when something else is wrong than before.
 * `first`: what was wrong when the gateway started.
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
    // They are read every 30 s.
    if (wrong === reported) return;
    reported = wrong;
    if (refused) {
      for (const problem of reload.problems)
        logger.error('config_refused', { code: problem.code, problem: renderProblem(problem) });
      logger.warn('config_kept', { reason: 'the changed configuration has errors; the one before stays in force' });
    } else {
      tellMisconfigured(reload.misconfigured, logger);
      logWarnings(reload.warnings, logger);
    }
  };
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
