import { renderProblem } from '../config/problem/problem.ts';
import type { Reload } from '../registry/config-follower.ts';
import type { Rooms } from './rooms.ts';

/** Tells of readings of the configuration after the start: each is counted, and logged when something else is wrong than before. */
export class ReloadReport {
  readonly #rooms: Pick<Rooms, 'logger' | 'metrics'>;
  /** What was wrong with the files when that was last told. */
  #told: string;

  constructor(rooms: Pick<Rooms, 'logger' | 'metrics' | 'loaded'>) {
    this.#rooms = rooms;
    this.#told = JSON.stringify([false, rooms.loaded.warnings]);
  }

  tell(reload: Reload): void {
    const { logger, metrics } = this.#rooms;
    for (const secret of reload.secrets) logger.addSecret(secret);
    metrics
      .counter('trunkline_config_reloads_total', 'Readings of the configuration after start.', ['result'])
      .of(reload.kind)
      .add();
    const found = reload.kind === 'refused' ? reload.problems : reload.warnings;
    const told = JSON.stringify([reload.kind === 'refused', found]);
    // They are read every 30 s.
    if (told === this.#told) return;
    this.#told = told;
    if (reload.kind === 'refused') {
      for (const problem of reload.problems)
        logger.error('config_refused', { code: problem.code, problem: renderProblem(problem) });
      logger.warn('config_kept', { reason: 'the changed configuration has errors; the one before stays in force' });
    } else {
      for (const warning of reload.warnings)
        logger.warn('config_warning', { code: warning.code, problem: renderProblem(warning) });
    }
  }
}
