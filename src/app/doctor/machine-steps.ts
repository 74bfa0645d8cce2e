import { statSync } from 'node:fs';
import { bindError, ListenError } from '../../http/listener/listen-error.ts';
import type { DesiredState } from '../../model/desired-state.ts';
import { type DataFolder, FolderUnusable } from '../../store/data-folder.ts';
import { certificateProblem } from '../certificate-problem.ts';
import { authority } from '../listener-settings.ts';
import { productVersion } from '../version.ts';
import { type DoctorStep, failed, ok, warning } from './doctor-step.ts';

const DAY_MS = 86_400_000;

/** Returns the steps that do not depend on the configuration. */
export function programSteps(): readonly DoctorStep[] {
  const { versions, platform, arch, execPath } = process;
  const now = new Date();
  const time = `${now.toISOString().slice(0, 19)}Z`;
  // A clock from before the installation is wrong, and certificates then look not valid yet.
  const installed = statSync(import.meta.filename).mtime;
  const behind = now.getTime() < installed.getTime() - DAY_MS;
  return [
    ok('program', `trunkline ${productVersion()}, Node.js ${versions.node} (${execPath}), ${platform} ${arch}`),
    behind
      ? warning('time', `${time} is before this program was installed`, 'set the clock of this machine')
      : ok('time', time),
  ];
}

/** Examines, without creating it, whether the folder can keep a gateway's state. `named`: by a flag, a variable or the file. */
export function folderStep(folder: DataFolder, named: boolean): DoctorStep {
  try {
    return ok('data', `${folder.path}${folder.examine() ? '' : ', which is made at the first start'}`);
  } catch (error) {
    if (!(error instanceof FolderUnusable)) throw error;
    const { message, remedy, untrusted } = error;
    // Without the default folder a gateway starts, as long as that holds no state (decision 053).
    const starts = !named && !untrusted && !folder.mayHoldState;
    return starts
      ? warning('data', `${message}; a gateway keeps everything in memory then`, remedy)
      : failed('data', message, remedy);
  }
}

/** Examines the certificate files of the listeners; empty without TLS. */
export function certificateSteps(state: DesiredState): readonly DoctorStep[] {
  const problem = certificateProblem(state);
  if (problem !== null) return [failed('certificate', problem)];
  const files = [state.listen.tls, state.control.tls].flatMap((tls) => (tls === null ? [] : [tls.certFile]));
  return files.map((file) => ok('certificate', file));
}

/** Examines whether the ports of the gateway are free; opens each for a moment. */
export async function portSteps({ listen, control }: DesiredState): Promise<DoctorStep[]> {
  const ports = [
    { ...listen, flag: '--port' },
    { ...control, flag: '--control-port' },
  ];
  return Promise.all(
    ports.map(async ({ host, port, flag }) => {
      if (port === 0) return ok('port', `${flag} 0: any free one`);
      const error = await bindError(host, port);
      return error === null
        ? ok('port', `${authority(host, port)} is free`)
        : failed('port', new ListenError(error, host, port, flag).message);
    }),
  );
}
