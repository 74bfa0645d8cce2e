import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** Whether this process is in the foreground of its terminal; false after `trunkline &`. */
export function inForeground(): boolean {
  try {
    if (process.platform !== 'linux') {
      const state = execFileSync('ps', ['-o', 'stat=', '-p', `${process.pid}`], { encoding: 'utf8' });
      return state.includes('+');
    }
    // The program name, in parentheses, may contain blanks.
    const [, , group, , , owner] = readFileSync('/proc/self/stat', 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ');
    return owner === '-1' || group === owner;
  } catch {
    return true;
  }
}
