# The formula of a release: packaging/homebrew/fill.sh replaces the words between at signs.
class Seawall < Formula
  desc "Continuous protection of SQLite, LMDB, PostgreSQL and MySQL databases"
  homepage "@SOURCE@"
  version "@VERSION@"
  license "Apache-2.0"

  # Seawall is tested on Linux only.
  depends_on :linux

  on_intel do
    url "@SOURCE@/releases/download/v@VERSION@/seawall-@VERSION@-x86_64-unknown-linux-musl.tar.gz"
    sha256 "@X86_64@"
  end

  on_arm do
    url "@SOURCE@/releases/download/v@VERSION@/seawall-@VERSION@-aarch64-unknown-linux-musl.tar.gz"
    sha256 "@AARCH64@"
  end

  def install
    bin.install "seawall"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/seawall.bash" => "seawall"
    zsh_completion.install "completions/seawall.zsh" => "_seawall"
    fish_completion.install "completions/seawall.fish"
    doc.install "README.md", "CHANGELOG.md", "sbom.cdx.json"
  end

  service do
    run [opt_bin/"seawall", "replicate", "--config", etc/"seawall.yml"]
    keep_alive crashed: true
    log_path var/"log/seawall.log"
    error_log_path var/"log/seawall.log"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/seawall --version")
    system bin/"seawall", "demo"
  end
end
