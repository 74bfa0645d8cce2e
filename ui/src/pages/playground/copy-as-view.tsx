import { useSignal } from '@preact/signals';
import type { Tool } from '../../api/operations.ts';
import { copyText } from '../../parts/clipboard.ts';
import { Code } from '../../parts/code.tsx';
import { gateway } from '../../servers.ts';
import { asCommand, asCurl, asTest, MODERN } from './copy-as.ts';
import type { PlayedRun, PlayRequest } from './play.ts';

interface CopyAsProps {
  readonly request: PlayRequest;
  readonly tool: Tool | null;
  /** The last call: what it answered is what a test expects. */
  readonly run: PlayedRun | null;
}

/** The same call elsewhere: on a command line, with curl, in a test. */
export function CopyAs({ request, tool, run }: CopyAsProps) {
  const kind = useSignal('command');
  const mcpUrl = gateway.value?.mcpUrl ?? '';
  const isSame = run !== null && JSON.stringify(run.request) === JSON.stringify(request);
  const result = isSame ? (run.answer.value?.result ?? null) : null;
  const target = tool === null ? null : { server: tool.server, tool: tool.name };
  const command = asCommand(request, target);
  const texts: Readonly<Record<string, string | null>> = {
    command: 'why' in command ? null : command.text,
    curl: asCurl(request, mcpUrl),
    test: asTest(request, mcpUrl, result),
  };
  const text = texts[kind.value] ?? texts['curl']!;
  const shown = texts[kind.value] === null ? 'curl' : kind.value;
  return (
    <details class="copy-as">
      <summary>The same call elsewhere</summary>
      <div class="toolbar" role="group" aria-label="Form of the call">
        {Object.entries({ command: 'Command', curl: 'curl', test: 'Test file' }).map(([id, title]) => (
          <button
            key={id}
            type="button"
            aria-pressed={shown === id}
            disabled={texts[id] === null}
            onClick={() => (kind.value = id)}
          >
            {title}
          </button>
        ))}
        <button type="button" onClick={() => void copyText(text)}>
          Copy
        </button>
      </div>
      {'why' in command ? <p class="soft">{`No command makes this call: ${command.why}.`}</p> : null}
      {request.node === null ? null : (
        <p class="soft">{`The address is that of this page's node, not of ${request.node}.`}</p>
      )}
      {shown === 'test' && request.revision !== MODERN ? (
        <p class="soft">{`The test speaks ${MODERN}, not ${request.revision}.`}</p>
      ) : null}
      <Code form={shown}>{text}</Code>
    </details>
  );
}
