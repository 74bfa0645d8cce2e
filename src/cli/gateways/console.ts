import { runningClient } from '../access/find-running.ts';
import { openPrivately } from '../access/open-browser.ts';
import { type CommandInput, print } from '../command-input.ts';
import { EXIT, type ExitCode } from '../exit-code.ts';

/** `trunkline console`: prints a link that logs one browser in to the console of the running gateway. */
export async function consoleLink(input: CommandInput & { readonly open: boolean }): Promise<ExitCode> {
  const client = await runningClient(input);
  const { url } = JSON.parse(await client.post('/api/v1/console-links', '{}')) as { url: string };
  const opened = input.open && openPrivately(url, input.terminal.env);
  const note = input.open && !opened ? 'no browser can be opened from here; open the address yourself\n' : '';
  print(input, { url, opened }, () => `${url}\n${note}`);
  return EXIT.ok;
}
