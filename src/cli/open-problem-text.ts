import type { OpenProblem } from '../app/open-problem.ts';
import { renderProblem } from '../config/problem/problem.ts';

/** Why the gateway cannot start, in words and with the remedy. */
export function openProblemText(problem: OpenProblem, cwd: string): string {
  switch (problem.kind) {
    case 'config':
      return problem.problems.map((one) => renderProblem(one, cwd)).join('\n\n');
    case 'bind':
      return problem.message;
    case 'folder':
    case 'truth':
      return `${problem.message}\n  fix: ${problem.remedy}`;
    case 'held': {
      const { holder, dataDir } = problem;
      const who =
        holder === null
          ? 'another process'
          : `trunkline ${holder.version} (pid ${holder.pid}, ${holder.mcpUrl}, serving ${holder.files.join(', ') || 'a command'})`;
      return `${who} already uses the data folder ${dataDir}\n  fix: use that gateway, stop it, or start this one with --data-dir <another folder>`;
    }
  }
}
