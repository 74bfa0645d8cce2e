import type { Server } from '../../api/operations.ts';
import { Command, shellWord } from '../../parts/command.tsx';
import { ago } from '../../parts/reading.ts';

/** Why the last start of a server failed, and what to do. */
export function LastFailure({ server }: { readonly server: Server }) {
  const failed = server.lastLaunchFailure;
  if (failed === null) return null;
  const { at, step, error, likelyCause, environment, missingVariables, inContainer, exit } = failed;
  const ended = exit === null ? null : exit.signal === null ? `with exit code ${exit.code}` : `by ${exit.signal}`;
  const facts = [
    ['Failed at', `${step}, ${ago(at)}`],
    ['Error', error],
    ['Cause', likelyCause],
    ['Command', failed.command === null ? null : [failed.command, ...failed.arguments].map(shellWord).join(' ')],
    ['Variables', environment.join(', ')],
    ['Missing variables', missingVariables.join(', ')],
    ['Process ended', ended],
    ['Container', inContainer ? 'the gateway runs in one' : null],
  ].filter(([, text]) => text !== null && text !== '');
  return (
    <section class="panel" aria-label="Last failed start">
      <h2>
        Last failed start <Command text={`trunkline doctor ${shellWord(server.name)}`} />
      </h2>
      <dl class="facts">
        {facts.map(([title, text]) => [<dt key={title}>{title}</dt>, <dd key={`${title} =`}>{text}</dd>])}
      </dl>
      {failed.stderrTail === '' ? null : <pre class="log">{failed.stderrTail}</pre>}
    </section>
  );
}
